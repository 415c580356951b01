"""A font that has Chinese characters: an installed one, or the one of the package `paperang-p2-fonts-cjk`."""

# fontTools is typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset  # pyright: ignore[reportMissingTypeStubs]
from matplotlib import font_manager

FAMILIES = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "PingFang SC", "Hiragino Sans GB",
    "Microsoft YaHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "Heiti SC", "Heiti TC", "Songti SC",
    "Noto Sans CJK JP", "Noto Sans CJK TC", "Droid Sans Fallback", "AR PL UMing CN", "Arial Unicode MS",
)  # fmt: skip
"""Families with simplified characters, the first that is installed is used."""
FREE = ("Noto", "Source Han", "WenQuanYi", "Droid")
"""Families whose licence lets a part of them travel inside a document."""
PACKAGE = "paperang_p2_fonts_cjk"
NO_FONT = (
    "no font with Chinese characters is installed, so the figures are drawn in English; "
    'install one: pip install "specdec-sim[chinese]", or your system\'s (Debian: fonts-noto-cjk)'
)


@cache
def chinese_family(families: tuple[str, ...] = FAMILIES, package: str = PACKAGE) -> str | None:
    """The name of a family with Chinese characters, known to matplotlib from now on; None where there is none."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    found = next((family for family in families if family in installed), None)
    return found or _packaged_family(package)


def _packaged_family(package: str) -> str | None:
    """The font is read from the package's folder; the package itself is not imported."""
    spec = find_spec(package)
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    for folder in folders:
        for file in sorted(Path(folder).glob("fonts/*.tt[cf]")):
            font_manager.fontManager.addfont(str(file))  # pyright: ignore[reportUnknownMemberType]
            return font_manager.FontProperties(fname=str(file)).get_name()
    return None


def subset_font(text: str) -> bytes | None:
    """A TrueType or OpenType font of the Chinese characters of a text, for a page that is read elsewhere.

    None where no Chinese family is known, or only one whose licence does not let it be passed on.
    """
    family = chinese_family()
    if family is None or not family.startswith(FREE):
        return None
    file = font_manager.findfont(font_manager.FontProperties(family=family), fallback_to_default=False)
    options = subset.Options(font_number=0, layout_features=[], name_IDs=[1, 2, 13], notdef_outline=True, hinting=False)
    options.drop_tables += ["FFTM"]
    font = subset.load_font(file, options)
    chosen = subset.Subsetter(options)
    chosen.populate(unicodes=sorted({ord(char) for char in text if ord(char) > 0x2E7F}))
    chosen.subset(font)
    stream = io.BytesIO()
    font.save(stream)
    font.close()
    return stream.getvalue()


def families_for(language: str) -> list[str]:
    """Families in the order in which matplotlib looks for a character."""
    chinese = chinese_family() if language == "zh" else None
    return [*([chinese] if chinese else []), "DejaVu Sans"]


def drawn_language(language: str) -> str:
    """The language figures can be drawn in: English where Chinese was asked for and no font has it."""
    return "en" if language == "zh" and chinese_family() is None else language
