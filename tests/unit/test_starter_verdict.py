"""How runs end: codes, texts, which outputs go back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from slotwise.execution.exit_status import End, How, Kill, MemoryRule, classify, ends_in_hold
from slotwise.execution.job_view import JobView, TransferRules, read_job
from slotwise.execution.keeper_spec import CgroupPlan, KeeperResult, KeeperSpec, Usage, parse_result
from slotwise.starter.run.lifecycle import wanted_outputs

AD = {"Cmd": "/bin/x", "Arguments": "a 'b c'", "Iwd": "/w", "In": "i", "Out": "o", "Err": "e"}
JOB = read_job(AD.get, "ann@here")
LIMIT = MemoryRule(100)
OOM = KeeperResult("signaled", code=9, oom_kills=1, usage=Usage(peak_kib=50 * 1024))


@pytest.mark.parametrize(
    ("code", "subcode", "hold"),
    [
        (0, 0, False),
        (-1, 0, False),
        (1, 0, True),
        (999, 0, True),
        (1000, 0, False),
        (34, 102, True),
        (21, -999, True),
        (21, -1000, False),
    ],
)
def test_the_split_between_hold_and_vacate(code: int, subcode: int, hold: bool) -> None:
    assert ends_in_hold(code, subcode) is hold


def test_own_ends() -> None:
    assert classify(KeeperResult("exited", code=3), None, JOB, LIMIT) == End(How.EXITED, 3)
    assert classify(KeeperResult("signaled", code=11, core=True), None, JOB, LIMIT) == End(How.SIGNALED, 11, core=True)


def test_a_job_that_left_by_itself_was_not_killed() -> None:
    assert classify(KeeperResult("exited"), Kill(fast=False, code=1010), JOB, LIMIT).how is How.EXITED


def test_a_killed_job_is_evicted_even_if_it_exits_with_zero() -> None:
    end = classify(KeeperResult("exited", ended_by="soft"), Kill(fast=False, reason="r", code=1010), JOB, LIMIT)
    assert (end.how, end.reason, end.reason_code) == (How.EVICTED, "r", 1010)


def test_a_kill_with_hold() -> None:
    end = classify(
        replace(OOM, ended_by="hard"), Kill(fast=True, reason="policy", code=21, subcode=5, hold=True), JOB, LIMIT
    )
    assert (end.how, end.reason, end.reason_code, end.reason_subcode) == (How.HELD, "policy", 21, 5)


def test_out_of_memory_holds_and_reports_the_limit() -> None:
    end = classify(OOM, None, JOB, LIMIT)
    assert (end.how, end.reason_code, end.reason_subcode, end.at_memory_limit) == (How.HELD, 34, 102, True)
    assert "limit of 100 megabytes. Last measured usage: 100 megabytes." in end.reason


def test_out_of_memory_of_others_sends_the_job_back() -> None:
    rule = MemoryRule(100, always_hold=False)
    assert classify(OOM, None, JOB, rule) == End(How.EVICTED, reason="Worker node is out of memory")
    near = replace(OOM, usage=Usage(peak_kib=95 * 1024))
    assert classify(near, None, JOB, rule).how is How.HELD
    unmeasured = replace(OOM, usage=Usage())
    assert "Last measured usage: 100" in classify(unmeasured, None, JOB, rule).reason


def test_exit_137_without_an_oom_event_is_an_exit() -> None:
    assert classify(KeeperResult("exited", code=137), None, JOB, LIMIT).how is How.EXITED
    assert classify(KeeperResult("exited", code=137, oom_kills=1), None, JOB, LIMIT).how is How.EXITED


@pytest.mark.parametrize(
    ("stage", "errno", "how", "code", "words"),
    [
        ("exec", 2, How.HELD, 6, "Failed to execute '/bin/x' with arguments a 'b c': (errno=2: 'No such file"),
        ("cwd", 2, How.HELD, 14, "Cannot access initial working directory /w: No such"),
        ("stdin", 2, How.HELD, 8, "Failed to open 'i' as standard input"),
        ("stdout", 13, How.HELD, 7, "Failed to open 'o' as standard output: Permission denied (errno 13)"),
        ("stderr", 28, How.HELD, 7, "Failed to open 'e' as standard error"),
        ("cgroup", 2, How.NOT_STARTED, 1007, "could not be started here (cgroup)"),
        ("user", 1, How.NOT_STARTED, 1007, "could not be started here (user)"),
    ],
)
def test_failed_starts(stage: str, errno: int, how: How, code: int, words: str) -> None:
    end = classify(KeeperResult("failed", stage=stage, errno=errno), None, JOB, LIMIT)
    assert (end.how, end.reason_code, end.reason_subcode) == (how, code, errno)
    assert words in end.reason


def test_a_dead_keeper_sends_the_job_back() -> None:
    assert classify(KeeperResult("lost"), None, JOB, LIMIT).reason_code == 1007


def rules(when: str) -> JobView:
    return replace(JOB, transfer=TransferRules(when=when))


@pytest.mark.parametrize(
    ("when", "end", "kill", "outputs"),
    [
        ("ON_EXIT", End(How.EXITED, 1), None, "all"),
        ("ON_EXIT", End(How.SIGNALED, 9), None, "all"),
        ("ON_SUCCESS", End(How.EXITED, 0), None, "all"),
        ("ON_SUCCESS", End(How.EXITED, 1), None, "streams"),
        ("ON_SUCCESS", End(How.SIGNALED, 0), None, "streams"),
        ("ON_EXIT", End(How.EVICTED), Kill(fast=False), "none"),
        ("ON_EXIT_OR_EVICT", End(How.EVICTED), Kill(fast=False), "all"),
        ("ON_EXIT_OR_EVICT", End(How.EVICTED), Kill(fast=True), "none"),
        ("ON_EXIT", End(How.EVICTED), Kill(fast=True, want_outputs=True), "all"),
        ("ON_EXIT", End(How.HELD, reason_code=34), None, "none"),
        ("ON_EXIT", End(How.NOT_STARTED), None, "none"),
    ],
)
def test_which_outputs_go_back(when: str, end: End, kill: Kill | None, outputs: str) -> None:
    assert wanted_outputs(end, kill, rules(when)) == outputs


def test_a_keeper_s_result_is_read() -> None:
    result = parse_result(
        "how=signaled\ncode=6\ncore=1\nended_by=soft\noom_kills=2\nstarted_at=1.5\nended_at=2.5\nleftovers=0\n"
        "unenforced=/a: no\nunenforced=/b: no\nuser_s=0.25\npeak_kib=77\n"
    )
    assert (result.how, result.code, result.core, result.ended_by, result.oom_kills) == ("signaled", 6, True, "soft", 2)
    assert (result.unenforced, result.usage.peak_kib, result.ended_at) == (("/a: no", "/b: no"), 77, 2.5)


def test_a_spec_has_no_zero_bytes_but_its_own() -> None:
    spec = KeeperSpec(name="n", exe="/x", args=("x", "a\0b"), env={"E": "1\0"}, cwd="/", cgroup=CgroupPlan())
    fields = spec.encode().split(b"\0")
    assert b"arg=ab" in fields and b"env=E=1" in fields
