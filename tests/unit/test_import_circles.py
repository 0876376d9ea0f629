"""No module of the package imports itself by way of others, imports for type checking included."""

from __future__ import annotations

import ast
from pathlib import Path

import slotwise

_ROOT = Path(slotwise.__file__).parent
#: Modules that are still in a circle. The set only shrinks: a module that has left its circle fails the test, too.
KNOWN: frozenset[str] = frozenset()


def _modules() -> dict[str, Path]:
    found = {}
    for path in _ROOT.rglob("*.py"):
        parts = ("slotwise", *path.relative_to(_ROOT).with_suffix("").parts)
        if "gen" not in parts:
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def _imports(path: Path, modules: dict[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in modules else node.module)
    return found & modules.keys()


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        module = ahead.pop()
        if module not in seen:
            seen.add(module)
            ahead += graph[module]
    return seen


def _way_back(start: str, graph: dict[str, set[str]]) -> list[str]:
    """The shortest circle through ``start``."""
    ways = [[start]]
    seen = {start}
    for way in ways:
        for module in sorted(graph[way[-1]]):
            if module == start:
                return [*way, start]
            if module not in seen:
                seen.add(module)
                ways.append([*way, module])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    modules = _modules()
    graph = {name: _imports(path, modules) - {name} for name, path in modules.items()}
    reached = {name: _reached(name, graph) for name in graph}
    circling = {name for name in graph if name in reached[name]}
    new = sorted(circling - KNOWN)
    assert not new, "a circle of imports: " + " -> ".join(_way_back(new[0], graph))
    assert not KNOWN - circling, f"these are in no circle any more: {sorted(KNOWN - circling)}"
