"""Hooks of mkdocs: pages at the root of the repository join the site, and links between them and `docs` hold.

Files that are not pages (sources, tests) have no place on the site: links to them become their names.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
#: Files of the repository, and where they are on the site.
PAGES = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/code_of_conduct.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/README.md": "project/bench.md",
}
#: Pages that search leaves out, by the beginning of their path: generated lists of what nobody looks for by words, and
#: why things were decided. They are in the index of pages.
UNSEARCHED = (
    "reference/protos.md",
    "reference/proto-compatibility.md",
    "reference/manual-coverage.md",
    "decisions/0",
    "contributing/",
    "project/code_of_conduct.md",
    "project/changelog.md",
)
#: How much more, or less, pages count in a search: first what one does, then what one looks up by its exact name.
BOOSTS = {"users/": 4.0, "examples/": 3.0, "guides/": 2.0, "reference/hold-codes.md": 3.0, "reference/": 0.5}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")
_SOURCE = re.compile(r'(<img src=")([^":]+)(")')
_FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def _place(path: str) -> str | None:
    """Where a file of the repository is on the site; None: it is not there."""
    if path in PAGES:
        return PAGES[path]
    if path == "docs" or path.startswith("docs/"):
        inside = path.removeprefix("docs").removeprefix("/")
        if (ROOT / path).is_dir():  # its index, or that of all pages
            return posixpath.join(inside if (ROOT / path / "README.md").exists() else "", "README.md")
        return inside
    return None


def _relinked(markdown: str, source: str, here: str) -> str:
    """The text of the file ``source`` of the repository, with links that hold at ``here`` on the site."""

    def link(found: re.Match[str]) -> str:
        image, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return found[0]
        place = _place(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
        if place is None:
            return text
        return f"{image}[{text}]({posixpath.relpath(place, posixpath.dirname(here))}{anchor})"

    def source_of(found: re.Match[str]) -> str:
        place = _place(posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2])))
        assert place is not None, f"{source} shows {found[2]}, which is not on the site"
        return f"{found[1]}{posixpath.relpath(place, posixpath.dirname(here))}{found[3]}"

    def relinked(part: str) -> str:
        return _SOURCE.sub(source_of, _LINK.sub(link, part))

    return "".join(part if part.startswith("```") else relinked(part) for part in _FENCED.split(markdown))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for source, place in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=_relinked(text, source, place)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links that leave `docs` to where those files are on the site, and say how much a page counts in a search."""
    here = page.file.src_uri
    if here.startswith(UNSEARCHED):
        page.meta["search"] = {"exclude": True}
    elif (boost := next((boost for begin, boost in BOOSTS.items() if here.startswith(begin)), None)) is not None:
        page.meta["search"] = {"boost": boost}
    return markdown if here in PAGES.values() else _relinked(markdown, f"docs/{here}", here)
