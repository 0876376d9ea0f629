"""Defaults and ranges of knobs are in the knob table, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slotwise
from msgspec import Struct
from slotwise.config import find_knob
from slotwise.cron import jobs as cron
from slotwise.defrag import rules
from slotwise.home import PoolHome
from slotwise.librarian import rules as librarian
from slotwise.mail.settings import MailSettings
from slotwise.master.app import backoff_of
from slotwise.master.limits import Limits
from slotwise.master.policy import Backoff
from slotwise.master.watchdog import HangTimeout
from slotwise.model.resources import Resources
from slotwise.negotiator import cycle
from slotwise.negotiator.schedule import CycleTiming
from slotwise.rooster import rules as rooster
from slotwise.schedd import settings as schedd
from slotwise.startd import settings as startd
from slotwise.startd.job_history import JobHistorySettings
from slotwise.startd.policy.expressions import Timers
from slotwise.starter import settings as starter

from tests.support.configured import configured
from tests.support.startd_point import point

SOURCES = Path(slotwise.__file__).parent
READERS = {"get_str", "get_text", "get_list", "get_expr", "get_int", "get_bool", "get_float"} | {
    "find_int", "find_bool", "find_float",
}  # fmt: skip
#: Names of objects whose ``get`` is that of a configuration.
CONFIGS = {"config", "_config", "own", "knobs"}
#: Readers that must find a default.
TYPED = {"get_int", "get_bool", "get_float"}


def name_of(node: ast.expr) -> str:
    """The last name of ``a.b.c`` or ``c``."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_read(node: ast.AST) -> bool:
    """Whether a call reads a knob."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    of_config = node.func.attr == "get" and name_of(node.func.value) in CONFIGS
    return of_config or node.func.attr in READERS


def may_read(source: str) -> bool:
    """Whether a source has the words of a call that :func:`is_read` takes for one that reads a knob: most have none."""
    return (
        any(reader in source for reader in READERS)
        or re.search(rf"\b(?:{'|'.join(CONFIGS)})\s*\.\s*get\b", source) is not None
    )


def says_something(node: ast.expr) -> bool:
    """Whether an expression is a constant other than nothing, or a collection of such."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    return isinstance(node, ast.Tuple | ast.List | ast.Set) and bool(node.elts)


def defaults_at_call_sites(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a source that give a knob a default of their own, and how."""
    for node in ast.walk(ast.parse(source)) if may_read(source) else ():
        if isinstance(node, ast.Call) and is_read(node) and len(node.args) + len(node.keywords) > 1:
            yield node.lineno, ast.unparse(node)
        first = node.values[0] if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) else None
        if isinstance(node, ast.BoolOp) and first is not None and any(is_read(inner) for inner in ast.walk(first)):
            yield from ((node.lineno, ast.unparse(node)) for value in node.values[1:] if says_something(value))


@pytest.mark.parametrize(
    "source",
    [
        'config.get_int("MATCH_TIMEOUT", 120)',
        'config.get_bool("USE_PSS", default=False)',
        '(self._config.get("BACKFILL_SYSTEM") or "BOINC").strip()',
        'x = config.get_text("A").lower() or "auto"',
        'config.get_list("CONSOLE_DEVICES") or ("mouse", "console")',
    ],
)
def test_a_default_at_a_call_site_is_found(source: str) -> None:
    assert list(defaults_at_call_sites(source))


def test_no_call_site_has_a_default() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}: {text}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, text in defaults_at_call_sites(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "put the default into rust/config/data/slotwise.tsv"


def test_what_is_read_as_a_number_or_truth_value_has_a_default() -> None:
    lacking = []
    for path in SOURCES.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if may_read(source) else ():
            if not isinstance(node, ast.Call) or not is_read(node) or name_of(node.func) not in TYPED or not node.args:
                continue
            name = node.args[0]
            if isinstance(name, ast.Constant):
                knob = find_knob(str(name.value))
                if knob is None or (knob.default is None and knob.implied is None):
                    lacking.append(f"{path.name}:{node.lineno}: {name.value!r}")
    assert lacking == [], "give them one in rust/config/data/slotwise.tsv, or read them with find_..."


def repeated(settings: Any, prefix: str = "") -> dict[str, Any]:
    """Fields that are numbers, truth values, texts or rows of them, those of settings within settings too.

    An empty text or row repeats no default: it stands for what is not configured.
    """
    found = {}
    for field in settings.__struct_fields__:
        name, value = prefix + field, getattr(settings, field)
        if isinstance(value, Struct):
            found.update(repeated(value, f"{name}."))
        elif isinstance(value, int | float) or (isinstance(value, str | tuple | dict | frozenset) and value):
            found[name] = value
    return found


# ``own``: what the host says; and limits, of which there are none (0) where nobody read a configuration.
@pytest.mark.parametrize(
    ("usual", "read", "own"),
    [
        (
            schedd.Settings("h", "h", "h", "h"),
            lambda: schedd.read_settings(configured("SCHEDD"), "h", Path("local_univ_execute")),
            {
                "uid_domain",
                "file_system_domain",
                *(f"local.limits.{name}" for name in ("memory_mib", "processes", "open_files")),
            },
        ),
        (
            starter.StarterSettings(Path("/x")),
            lambda: starter.read_settings(configured("STARTER"), PoolHome(Path("/x")), {}),
            {"file_system_domain", "transfer_stats_log", "cgroup.max_processes"},
        ),
        (starter.VolumeSettings(), lambda: starter._volumes(configured("STARTER")), {"backing_file"}),
        (Limits(), lambda: Limits.of_config(configured("MASTER")), set()),
        (HangTimeout(), lambda: HangTimeout.of_config(configured("MASTER"), "schedd"), set()),
        (Backoff(), lambda: backoff_of(configured("MASTER")), set()),
        (rules.DefragRules(), lambda: rules.read(configured("DEFRAG"), ""), {"cancel"}),
        (cron.CronRules(), lambda: cron.read(configured()), set()),
        (Timers(), lambda: point().it.settings.timers, set()),
        (
            startd.Settings(configured("STARTD"), "h", {}, Resources()),
            lambda: startd.Settings.of(configured("STARTD"), {}, Resources(), [], "h"),
            set(),
        ),
        (CycleTiming(), lambda: cycle.Settings.of_config(configured("NEGOTIATOR"), "h").timing, set()),
        (rooster.RoosterRules(), lambda: rooster.read(configured("ROOSTER")), set()),
        (librarian.LibrarianRules(), lambda: librarian.read(configured("LIBRARIAN")), set()),
        (MailSettings(), lambda: MailSettings.of(configured("SCHEDD"), ""), set()),
        (JobHistorySettings(), lambda: JobHistorySettings.of(configured("STARTD")), set()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_without_a_configuration_are_those_of_an_empty_one(usual: Any, read: Any, own: set[str]) -> None:
    found = repeated(read())
    expected = repeated(usual)
    differing = {name: (value, found.get(name)) for name, value in expected.items() if found.get(name) != value}
    assert {name: pair for name, pair in differing.items() if name not in own} == {}
