"""What both pages share: templates that escape everything, data inside the page, no request to anywhere."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def rendered(template: str, **content: object) -> str:
    """A template filled; every text from outside is escaped, whatever the file is called."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**content) + "\n"


def data_uri(content: bytes, media_type: str) -> str:
    """Bytes as an address that holds them."""
    return f"data:{media_type};base64,{b64encode(content).decode('ascii')}"


def svg_uri(content: bytes) -> str:
    """A drawing inside the page, as an image: scripts in it would not run."""
    return data_uri(content, "image/svg+xml")
