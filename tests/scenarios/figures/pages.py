"""What a page must be to be forwarded: whole in itself, with links that lead somewhere."""

import re
from base64 import b64decode
from html.parser import HTMLParser
from urllib.parse import urlsplit

REFERENCES = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "formaction"}


class Page(HTMLParser):
    """Tags, references, ids and text of a page."""

    def __init__(self, html: str) -> None:
        """Read it."""
        super().__init__(convert_charrefs=True)
        self.references: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what a tag refers to."""
        self.tags.append(tag)
        for name, value in attrs:
            if name in REFERENCES:
                self.references.append((tag, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        self.text += data


def faults(html: str) -> list[str]:
    """One line for everything that would leave the page, run, or lead nowhere."""
    page = Page(html)
    found = [f"<{tag}>" for tag in page.tags if tag in ("script", "iframe", "object", "embed", "form")]
    found += [f"handler {name}" for name in page.handlers]
    found += [f"id {name!r} twice" for name in set(page.ids) if page.ids.count(name) > 1]
    for tag, target in page.references:
        if target.startswith("#"):
            found += [] if target[1:] in page.ids else [f"link to {target}, which is not there"]
        elif urlsplit(target).scheme != "data":
            found.append(f"<{tag}> refers to {target[:80]}")
        elif tag == "img" and not _is_drawing(target):
            found.append(f"image that is none: {target[:60]}")
    style = " ".join(re.findall(r"<style>(.*?)</style>", html, re.DOTALL))
    found += [f"style refers outside: {match}" for match in re.findall(r"@import|url\((?!data:)[^)]*\)", style)]
    return found


def downloads(html: str) -> list[str]:
    """Texts of the data that the page offers."""
    return [
        _content(target).decode() for tag, target in Page(html).references if tag == "a" and target.startswith("data:")
    ]


def _content(target: str) -> bytes:
    return b64decode(target.partition(";base64,")[2], validate=True)


def _is_drawing(target: str) -> bool:
    return target.startswith("data:image/svg+xml;base64,") and _content(target).rstrip().endswith(b"</svg>")
