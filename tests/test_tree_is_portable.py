"""Nothing in the tree depends on the machine it was written on."""

import re

import pytest

from tests.source_tree import ROOT, assert_none, tracked_files

MACHINE_PATH = re.compile(r"(?<![\w./:$}-])/(?:home|root|work|Users|tmp)/\w")
PARENT_FOLDER = re.compile(r"\.\./" + "shared")
REGISTRY_HOST = re.compile(
    r"pythonhosted\.org|pypi\.org|download\.pytorch\.org|registry\.npmjs|--(?:extra-)?index-url|deb\.debian\.org"
)
MAX_FILE_BYTES = 8 * 1024 * 1024


def _texts():
    for path in tracked_files():
        if path.resolve() == ROOT / "tests" / "test_tree_is_portable.py":
            continue
        content = path.read_bytes()
        if b"\0" not in content[:4096]:
            yield path.relative_to(ROOT).as_posix(), content.decode("utf-8", errors="replace")


@pytest.mark.parametrize("pattern", [MACHINE_PATH, PARENT_FOLDER, REGISTRY_HOST], ids=["path", "parent", "registry"])
def test_the_tree_names_no_place_of_this_machine(pattern):
    found = [
        f"{name}: {match.group(0)}"
        for name, text in _texts()
        for match in pattern.finditer(text)
        if "\n" not in match[0]
    ]
    assert_none(found)


def test_the_patterns_find_what_they_are_for():
    assert MACHINE_PATH.search("open('/ho" + "me/me/trace.csv')")
    assert not MACHINE_PATH.search("https://example.org/work/paper")
    assert REGISTRY_HOST.search("pip install --index" + "-url x")


def test_no_tracked_file_is_large():
    large = [path.relative_to(ROOT).as_posix() for path in tracked_files() if path.stat().st_size > MAX_FILE_BYTES]
    assert_none(large)


def test_the_licence_is_whole():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
