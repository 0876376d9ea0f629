"""Links in the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _targets(page: Path) -> set[Path]:
    links = _LINK.findall(re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL))
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def test_every_link_leads_to_a_file() -> None:
    broken = [(page.name, str(target)) for page in PAGES for target in _targets(page) if not target.exists()]
    assert broken == []
