"""Links in the documentation lead somewhere, and the files that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages that lead through the sources.
TOURS = [
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs/contributing").glob("*.md")),
    *sorted((ROOT / "docs/concepts").glob("*.md")),
    ROOT / "docs/reference/classad.md",
    ROOT / "docs/reference/proto-compatibility.md",
]
#: Where sources are; a name in a page is the end of a path below one of them.
SOURCES = ("bench", "build_support", "docs", "proto", "python", "rust", "tests", ".github")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def _targets(page: Path) -> set[Path]:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    links = [*_LINK.findall(text), *re.findall(r'<img src="([^"]+)"', text)]
    return {(page.parent / link).resolve() for link in links if "://" not in link}


def test_every_link_leads_to_a_file() -> None:
    broken = [(page.name, str(target)) for page in PAGES for target in _targets(page) if not target.exists()]
    assert broken == []


def _source_paths() -> set[str]:
    """Files and directories of the sources, each below a slash."""
    found = {f"/{path.name}" for path in ROOT.iterdir()}
    for top in SOURCES:
        for path in (ROOT / top).rglob("*"):
            if not {"__pycache__", "target"} & set(path.parts):
                found.add(f"/{path.relative_to(ROOT)}")
    return found


def _names_a_source(name: str) -> bool:
    if name.startswith("."):
        return False
    return name.endswith((".py", ".rs", ".tsv", ".proto")) or name.startswith(tuple(f"{top}/" for top in SOURCES))


def test_every_source_that_a_page_names_is_there() -> None:
    paths = _source_paths()
    missing = []
    for page in TOURS:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for name in re.findall(r"`([\w.*/-]+)`", text):
            pattern = re.compile(".*/" + re.escape(name.rstrip("/")).replace(r"\*", "[^/]*"))
            if _names_a_source(name) and not any(pattern.fullmatch(path) for path in paths):
                missing.append((page.name, name))
    assert missing == []


def test_the_tour_names_modules_and_tables_that_are_there() -> None:
    """Paths of the tour are below ``python/slotwise``; ``python -m`` runs a module; tables are named in capitals."""
    tour = (ROOT / "docs/contributing/tour.md").read_text()
    package, cycle = ROOT / "python/slotwise", ROOT / "rust/negotiator/src"
    named = [name for name in re.findall(r"`(\w+/[\w./]*)`", tour) if not name.startswith(SOURCES)]
    assert [name for name in named if not (package / name).exists() and not (cycle / name).exists()] == []
    modules = re.findall(r"-m ((?:slotwise|tests)[\w.]+)", tour)
    roots = {"slotwise": ROOT / "python", "tests": ROOT}
    assert modules
    for module in modules:
        path = roots[module.partition(".")[0]] / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    text = "".join(path.read_text() for path in package.rglob("*.py"))
    tables = re.findall(r"`([A-Z]+_[A-Z_]+)`", tour)
    assert tables and [name for name in tables if not re.search(rf"^{name}\b", text, re.M)] == []


def test_pictures_fetch_nothing_when_they_are_looked_at() -> None:
    for path in (ROOT / "docs").rglob("*.svg"):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.DOTALL)
        assert set(re.findall(r"https?://[^\"'\s)]+", text)) <= {"http://www.w3.org/2000/svg"}, path


def test_figures_beside_htcondor_are_those_that_the_benchmarks_have() -> None:
    """What the README says of HTCondor is recorded in the benchmark that a row names."""
    rows = re.findall(r"^\| .+? \| (.+?) \| (.+?) \| `bench/run\.py (\w+)` \|$", (ROOT / "README.md").read_text(), re.M)
    assert len(rows) == 5
    for ours, theirs, name in rows:
        recorded = re.findall(r'reference="([^"]+)"', (ROOT / f"bench/bench_{name}.py").read_text())
        assert re.search(r"\d", ours)
        assert theirs.split()[0] in recorded, (theirs, name, recorded)
