"""What goes into a daemon's log, where, and when it is put aside."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.home import PoolHome
from slotwise.observe.log import level_of, limit_of, log_file, start_log


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 Mb", (10 << 20, 0)),
        ("500", (500, 0)),
        ("64Kb", (64 << 10, 0)),
        ("1 Gb", (1 << 30, 0)),
        ("3 M", (3 << 20, 0)),
        ("3 m", (0, 180)),
        ("2 Min", (0, 120)),
        ("1 hr", (0, 3600)),
        ("2 Days", (0, 172800)),
        ("1 week", (0, 604800)),
        ("0", (0, 0)),
        ("plenty", (10 << 20, 0)),
        (None, (10 << 20, 0)),
    ],
)
def test_limits_have_the_references_units(text: str | None, expected: tuple[int, int]) -> None:
    assert limit_of(text) == expected


@pytest.mark.parametrize(
    ("debug", "expected"),
    [
        ((None, None), logging.INFO),
        (("", "D_PID"), logging.INFO),
        (("D_FULLDEBUG", None), logging.DEBUG),
        (("D_COMMAND:2 D_PID", None), logging.DEBUG),
        ((None, "D_ALL"), logging.DEBUG),
        (("D_ALWAYS", None), logging.INFO),
        (("-D_FULLDEBUG", "D_FULLDEBUG"), logging.INFO),
        (("D_ERROR", None), logging.ERROR),
        (("D_ERROR, D_STATUS", None), logging.INFO),
    ],
)
def test_debug_knobs_give_a_level(debug: tuple[str | None, str | None], expected: int) -> None:
    assert level_of(*debug) == expected


@pytest.fixture
def log_kept() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("log_kept")
def test_a_full_log_is_put_aside_and_a_reconfiguration_takes_effect(tmp_path: Path) -> None:
    home = PoolHome(tmp_path / "home")
    home.create()
    knobs = tmp_path / "knobs"
    where = tmp_path / "elsewhere.log"

    def configured(text: str) -> None:
        knobs.write_text(text)
        config = load(str(knobs), subsystem="SCHEDD", env={}, home=home)
        assert log_file(home, "schedd", config) == where
        start_log(home, "schedd", config, again=True)

    configured(f"SCHEDD_LOG = {where}\nMAX_SCHEDD_LOG = 1 Kb\n")
    logging.getLogger("x").debug("a whisper")
    for n in range(40):
        logging.getLogger("x").info("line %d of many", n)
    assert "line 39" in where.read_text()
    assert {path.name for path in tmp_path.glob("elsewhere*")} == {"elsewhere.log", "elsewhere.log.old"}
    assert where.stat().st_size <= 1024

    configured(f"SCHEDD_LOG = {where}\nALL_DEBUG = D_FULLDEBUG D_PID\n")
    logging.getLogger("x").debug("a louder whisper")
    assert "(pid:" in where.read_text() and "a louder whisper" in where.read_text()
