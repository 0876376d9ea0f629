"""``Any`` turns type checks off: a package has no more of it than it had, and none without a reason."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import slotwise

_ROOT = Path(slotwise.__file__).parent
#: How often each package names ``Any``; packages that are not listed never do. The numbers only shrink.
MOST = {
    "authorization": 2,
    "classad": 1,
    "client": 1,
    "demo": 1,
    "gpus": 2,
    "matchmaking": 1,
    "model": 1,
    "schedd": 1,
    "startd": 4,
    "wire": 4,
}


def _named(path: Path) -> int:
    source = path.read_text()
    if "Any" not in source:
        return 0
    names = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name))
    return sum(node.id == "Any" for node in names)


def _counts() -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in _ROOT.rglob("*.py"):
        package = path.relative_to(_ROOT).parts[0].removesuffix(".py")
        if "gen" not in path.relative_to(_ROOT).parts:
            counts[package] += _named(path)
    return counts


def test_no_package_takes_up_any() -> None:
    more = {package: count for package, count in _counts().items() if count > MOST.get(package, 0)}
    assert not more, f"write what these values are, or say why nobody can: {more}"
