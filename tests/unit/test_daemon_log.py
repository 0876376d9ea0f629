"""What goes into a daemon's log, where, and when it is put aside."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slotwise.config import load
from slotwise.config.checking import check
from slotwise.config.debug import CATEGORIES, DebugFlags
from slotwise.config.log_limits import limit_of
from slotwise.errors import ConfigError, HostError
from slotwise.home import PoolHome
from slotwise.observe.log import (
    ALSO_ALWAYS,
    LogFile,
    category,
    flush_logs,
    log_all,
    log_file,
    one_line,
    start_log,
)

from tests.support.waiting import block_until


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
        ("100MiB", (100 << 20, 0)),
        ("100 KiB", (100 << 10, 0)),
        ("5 Mi", (0, 300)),
        ("", (10 << 20, 0)),
        (None, (10 << 20, 0)),
    ],
)
def test_limits_have_htcondors_units(text: str | None, expected: tuple[int, int]) -> None:
    assert limit_of(text) == expected


@pytest.mark.parametrize("text", ["plenty", "10 parsecs", "-5", "1.5 Mb", "10 Mx", "10 Mb each", "ten"])
def test_a_limit_that_is_none_is_refused(text: str, tmp_path: Path, log_kept: None) -> None:
    with pytest.raises(ValueError, match=r"neither a size nor an age|no unit"):
        limit_of(text)
    home, knobs = PoolHome(tmp_path / "home"), tmp_path / "knobs"
    home.create()
    knobs.write_text(f"MAX_SCHEDD_LOG = {text}\n")
    config = load(str(knobs), subsystem="SCHEDD", env={}, home=home)
    assert [problem.code for problem in check(config)] == ["config-log-limit"]
    with pytest.raises(ConfigError, match="MAX_SCHEDD_LOG"):
        start_log(home, "schedd", config, again=True)


@pytest.mark.parametrize(
    ("general", "own", "expected"),
    [
        (None, None, {}),
        ("D_PID", "", {}),
        (None, "D_FULLDEBUG", {"D_FULLDEBUG": 1}),
        (None, "D_ALWAYS:2", {"D_FULLDEBUG": 1}),
        (None, "D_COMMAND:2 D_PID", {"D_COMMAND": 2}),
        (None, "D_COMMAND:2|D_MATCH,d_security:1", {"D_COMMAND": 2, "D_MATCH": 1, "D_SECURITY": 1}),
        ("D_ANY", None, dict.fromkeys(CATEGORIES, 1)),
        ("D_ALL:2", "-D_COMMAND", {name: 2 for name in CATEGORIES if name != "D_COMMAND"}),
        ("D_FULLDEBUG", "-D_FULLDEBUG", {}),
        ("D_COMMAND", "D_COMMAND:0", {}),
        (None, "D_ERROR", {}),
        (None, "D_NETWORK D_NONSENSE", {}),
    ],
)
def test_debug_knobs_select_categories(general: str | None, own: str | None, expected: dict[str, int]) -> None:
    assert DebugFlags.parse(general, own).verbosity == expected


def test_what_a_debug_knob_selects_in_vain_is_told_at_the_check(tmp_path: Path) -> None:
    knobs = tmp_path / "knobs"
    knobs.write_text(
        "SCHEDD_DEBUG = D_COMMAND:2 D_NETWORK D_PID\nSTARTD_DEBUG = D_COMAND\nSHADOW_DEBUG = D_FULLDEBUG\n"
        "ALL_DEBUG = D_ALWAYS D_CAT D_SUB_SECOND -D_MATCH\nCOLLECTOR_DEBUG = D_FDS\n"
    )
    found = [(p.name, p.severity, p.message) for p in check(load(str(knobs), env={}))]
    assert [name for name, severity, _ in found if severity == "warning"] == [
        "SCHEDD_DEBUG",
        "STARTD_DEBUG",
        "SHADOW_DEBUG",
        "COLLECTOR_DEBUG",
    ]
    assert found[0][2].startswith("D_NETWORK in SCHEDD_DEBUG selects nothing")
    assert "there is no such category" in found[1][2]
    assert "part of the schedd" in found[2][2]


@pytest.fixture
def log_kept() -> Iterator[None]:
    loggers = [logging.getLogger(), *(category(name) for name in CATEGORIES)]
    former = [(logger, list(logger.handlers), logger.level) for logger in loggers]
    source = logging._srcfile
    yield
    for logger, handlers, level in former:
        for handler in logger.handlers:
            if handler not in handlers:
                handler.close()
        logger.handlers[:] = handlers
        logger.setLevel(level)
    logging._srcfile = source


Configure = Callable[..., None]


@pytest.fixture
def configured(tmp_path: Path, log_kept: None) -> Configure:
    home = PoolHome(tmp_path / "home")
    home.create()
    knobs = tmp_path / "knobs"

    def start(text: str, daemon: str = "schedd") -> None:
        knobs.write_text(text)
        start_log(home, daemon, load(str(knobs), subsystem=daemon.upper(), env={}, home=home), again=True)

    return start


def log_text(path: Path) -> str:
    flush_logs()
    return path.read_text()


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
    assert "line 39" in log_text(where)
    assert {path.name for path in tmp_path.glob("elsewhere*")} == {"elsewhere.log", "elsewhere.log.old"}
    assert where.stat().st_size <= 1024

    configured(f"SCHEDD_LOG = {where}\nALL_DEBUG = D_FULLDEBUG D_PID\n")
    logging.getLogger("x").debug("a louder whisper")
    assert "(pid:" in log_text(where) and "a louder whisper" in where.read_text()


def test_no_line_is_lost_or_cut_when_a_burst_is_put_aside_many_times(tmp_path: Path, configured: Configure) -> None:
    where = tmp_path / "burst.log"
    configured(f"SCHEDD_LOG = {where}\nSCHEDD_DEBUG =\nMAX_SCHEDD_LOG = 2 Kb\nMAX_NUM_SCHEDD_LOG = 1000\n")
    for n in range(1000):
        logging.getLogger("x").info("%d.0: started on slot1@host", n)
    flush_logs()
    files = [*sorted(tmp_path.glob("burst.log.*")), where]
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert [line.split(" ", 2)[2] for line in lines] == [f"{n}.0: started on slot1@host" for n in range(1000)]
    assert all(path.stat().st_size <= 2048 for path in files) and len(files) > 20


def test_only_as_many_old_logs_are_kept_as_wanted(tmp_path: Path, configured: Configure) -> None:
    where = tmp_path / "some.log"
    configured(f"SCHEDD_LOG = {where}\nMAX_SCHEDD_LOG = 1 Kb\nMAX_NUM_SCHEDD_LOG = 3\n")
    for n in range(300):
        logging.getLogger("x").info("line %d", n)
    flush_logs()
    aside = sorted(tmp_path.glob("some.log.*"))
    assert len(aside) == 3 and all(re.search(r"\.\d{8}T\d{6}_*$", path.name) for path in aside)
    assert "line 299" in where.read_text()


def test_a_log_that_was_moved_away_is_begun_again(tmp_path: Path, configured: Configure) -> None:
    where = tmp_path / "some.log"
    configured(f"SCHEDD_LOG = {where}\n")
    logging.getLogger("x").info("before")
    flush_logs()
    where.rename(tmp_path / "taken.log")
    logging.getLogger("x").info("after")
    assert log_text(where).endswith(" after\n") and "after" not in (tmp_path / "taken.log").read_text()


def test_lines_are_written_without_being_asked_for(tmp_path: Path, configured: Configure) -> None:
    where = tmp_path / "some.log"
    configured(f"SCHEDD_LOG = {where}\n")
    for n in range(5):  # each time anew: the writer goes to sleep in between
        logging.getLogger("x").info("line %d", n)
        block_until(lambda line=f"line {n}": line in where.read_text(), f"line {n} is written")
    logging.getLogger("x").warning("of note")
    assert "WARNING: of note" in where.read_text()


@pytest.mark.parametrize(
    "attack",
    [
        "x\n11/22/26 12:00:00 7.0: removed by root@dom",
        "x\r11/22/26 12:00:00 7.0: removed by root@dom",
        "x\u2028forged\u2029forged\x85forged\x0bforged\x0cforged\x1cforged",
        "\x1b]0;title\x07\x1b[2J\x00",
        "\u202egnp.exe",
        "\udcff\udc80",
    ],
)
def test_a_message_stays_one_line_of_printable_characters(tmp_path: Path, configured: Configure, attack: str) -> None:
    where = tmp_path / "some.log"
    configured(f"SCHEDD_LOG = {where}\n")
    logging.getLogger("x").info("%s: held: %s", "1.0", attack)
    try:
        raise ValueError(attack)
    except ValueError:
        logging.getLogger("x").exception("a message could not be handled")
    logging.getLogger("x").info("the end")
    lines = log_text(where).split("\n")
    assert lines[0].endswith(f"1.0: held: {one_line(attack)}") and lines[0].isprintable()
    entries = [line for line in lines if line and not line.startswith("\t")]
    assert len(entries) == 3 and all(re.match(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d ", entry) for entry in entries)
    assert all(line.lstrip("\t").isprintable() for line in lines)


def test_many_lines_at_once_are_as_if_each_were_logged(
    tmp_path: Path, configured: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    where, logger = tmp_path / "some.log", logging.getLogger("x")
    lines: list[tuple[str, *tuple[object, ...]]] = [
        ("%s: exited with status %d (100 %%)", "1.0", 3),
        ("%s: held: %s", "2.0", "a\n11/22/26 forged"),
        ("plain",),
    ]
    configured(f"SCHEDD_LOG = {where}\nSCHEDD_DEBUG = D_CAT\n")
    for line in lines:
        logger.info(*line)
    one_by_one = log_text(where)
    where.write_text("")
    log_all(logger, lines)
    stamp = re.compile(r"\d\d:\d\d:\d\d")
    assert stamp.sub("", log_text(where)) == stamp.sub("", one_by_one) and one_by_one.count("\n") == 3
    logging.getLogger().handlers[:] = [caplog.handler]  # anything else gets records
    log_all(logger, lines)
    assert [record.getMessage() for record in caplog.records] == [
        "1.0: exited with status 3 (100 %)",
        "2.0: held: a\n11/22/26 forged",
        "plain",
    ]


def test_a_line_whose_arguments_do_not_fit_is_written_and_stops_nothing(tmp_path: Path, configured: Configure) -> None:
    where, logger = tmp_path / "some.log", logging.getLogger("x")
    configured(f"SCHEDD_LOG = {where}\n")
    logger.info("share %.2f of %s", None, "ann")
    log_all(logger, [("%d jobs", "many"), ("plain",)])
    written = log_text(where).splitlines()
    assert len(written) == 3 and written[2].endswith("plain")
    assert "share %.2f of %s (None, 'ann')" in written[0] and "%d jobs ('many',)" in written[1]


def test_a_category_is_written_where_it_is_selected_and_into_its_own_file(
    tmp_path: Path, configured: Configure
) -> None:
    main, matches = tmp_path / "NegotiatorLog", tmp_path / "MatchLog"
    files = f"NEGOTIATOR_LOG = {main}\nNEGOTIATOR_MATCH_LOG = {matches}\n"

    def say() -> None:
        category("D_MATCH").log(ALSO_ALWAYS, "      Matched 1.0")
        category("D_MATCH").info("      Rejected 2.0")
        category("D_MATCH").debug("      looked at 3.0")
        category("D_COMMAND").info("command")
        logging.getLogger("x").debug("detail")

    def told(path: Path) -> list[str]:
        text = log_text(path)
        path.write_text("")
        return re.findall(r"Matched|Rejected|looked|command|detail", text)

    configured(files, "negotiator")  # the default is D_MATCH, as in HTCondor
    say()
    assert told(main) == ["Matched", "Rejected"] and told(matches) == ["Matched", "Rejected"]
    configured(files + "NEGOTIATOR_DEBUG = D_COMMAND\n", "negotiator")
    say()
    assert told(main) == ["Matched", "command"] and told(matches) == ["Matched", "Rejected"]
    configured(files + "NEGOTIATOR_DEBUG = D_MATCH:2 D_FULLDEBUG D_CAT\n", "negotiator")
    say()
    assert "(D_MATCH) " in log_text(main) and "(D_ALWAYS:2) detail" in log_text(main)
    assert "(D_MATCH" not in log_text(matches)
    assert told(main) == ["Matched", "Rejected", "looked", "detail"] and told(matches) == ["Matched", "Rejected"]


def test_any_category_may_have_a_file_of_its_own_and_the_match_log_may_be_left_out(
    tmp_path: Path, configured: Configure
) -> None:
    main, commands = tmp_path / "SchedLog", tmp_path / "CommandLog"
    configured(f"SCHEDD_LOG = {main}\nSCHEDD_COMMAND_LOG = {commands}\nMAX_SCHEDD_COMMAND_LOG = 1 Kb\n")
    for _ in range(100):
        category("D_COMMAND").info("a command")
    assert "a command" not in log_text(main) and "a command" in commands.read_text()
    assert commands.stat().st_size <= 1024 and (tmp_path / "CommandLog.old").exists()
    configured(f"LOG = {tmp_path}\nNEGOTIATOR_MATCH_LOG =\n", "negotiator")
    category("D_MATCH").info("      Rejected 2.0")
    assert "Rejected" in log_text(tmp_path / "NegotiatorLog") and not (tmp_path / "MatchLog").exists()


def test_a_child_neither_writes_what_its_parent_gathered_nor_loses_its_own(
    tmp_path: Path, configured: Configure
) -> None:
    where = tmp_path / "some.log"
    configured(f"SCHEDD_LOG = {where}\n")
    logging.getLogger("x").info("of the parent")
    child = os.fork()
    if child == 0:
        logging.getLogger("x").info("of the child")
        flush_logs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    text = log_text(where)
    assert text.count("of the parent") == text.count("of the child") == 1


def test_headers_are_those_that_are_asked_for(tmp_path: Path, configured: Configure) -> None:
    where = tmp_path / "some.log"
    for knobs, pattern in [
        ("SCHEDD_DEBUG =", r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d said\n"),
        ("", r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d \(pid:\d+\) said\n"),
        ("SCHEDD_DEBUG = D_CAT D_SUB_SECOND", r"\S+ \d\d:\d\d:\d\d\.\d\d\d \(D_ALWAYS\) said\n"),
        ("SCHEDD_DEBUG = D_TIMESTAMP", r"\d{10} said\n"),
        ("SCHEDD_DEBUG =\nLOGS_USE_TIMESTAMP = true", r"\d{10} said\n"),
        ('SCHEDD_DEBUG =\nDEBUG_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"', r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d said\n"),
    ]:
        configured(f"SCHEDD_LOG = {where}\n{knobs}\n")
        logging.getLogger("x").info("said")
        assert re.fullmatch(pattern, log_text(where)), (knobs, where.read_text())
        where.write_text("")


def test_a_log_by_age_is_put_aside_when_its_time_is_up(tmp_path: Path, log_kept: None) -> None:
    where = tmp_path / "aged.log"
    (tmp_path / "aged.log.old").write_text("older\n")
    where.write_text("old\n")
    os.utime(tmp_path / "aged.log.old", (time.time() - 7200,) * 2)
    handler = LogFile(where, limit=(0, 3600))
    handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "new", None, None))
    handler.close()
    assert (tmp_path / "aged.log.old").read_text() == "old\n" and where.read_text().endswith(" new\n")


@pytest.mark.parametrize("target", ["nowhere/at/all", "log", "/proc/self/fd/99/x", "."])
def test_a_link_that_leads_to_no_log_is_named(tmp_path: Path, target: str, configured: Configure) -> None:
    """Half a log file was closed at the process's end, which failed with an AttributeError."""
    (tmp_path / "log").symlink_to(target)
    with pytest.raises(HostError, match=f"cannot write the log {tmp_path}/log, a link to") as refused:
        configured(f"SCHEDD_LOG = {tmp_path}/log\n")
    assert "SCHEDD_LOG" in str(refused.value.hint)
    known = [known for ref in logging._handlerList if isinstance(known := ref(), LogFile)]  # type: ignore[attr-defined]
    assert [file for file in known if file.path == tmp_path / "log"] == []
