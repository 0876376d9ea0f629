"""Hooks: which programs may be hooks, what their output and their status mean, what they are told of an end."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ExprTree
from slotwise.daemon.program_trust import fault_for_root
from slotwise.execution.exit_status import How
from slotwise.execution.hook_output import HookOutput, parse_output
from slotwise.execution.hook_rules import HookRules
from slotwise.execution.keeper_spec import Identity, KeeperResult
from slotwise.starter.hooks.hooks import _fault, prepare_verdict
from slotwise.starter.job.usage import exit_attributes

from tests.support import host

ROOT = host.needs(host.root)
ANN = Identity(uid=4001, gid=4002, groups=(4003,))


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    """A sound hook two directories below."""
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_mode & 0o1002 == 0o002:
            pytest.skip(f"{place} is open to everybody")
    path = tmp_path / "site" / "hooks" / "prog"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_sound_program_may_be_a_hook(hook: Path) -> None:
    assert _fault(str(hook), ANN) == _fault(str(hook), Identity()) == ""
    hook.chmod(0o775)  # as in HTCondor, where only "others" count
    assert _fault(str(hook), ANN) == ""


@pytest.mark.parametrize(
    ("place", "mode", "words"),
    [
        (0, 0o757, "is world-writable"),
        (0, 0o644, "is not executable"),
        (1, 0o777, "is in a world-writable directory"),
        (1, 0o1777, "is in a world-writable directory"),  # HTCondor's /tmp, too
        (2, 0o777, "is in a world-writable directory"),
        (2, 0o1777, ""),  # nobody but its owner can rename what is in it
    ],
)
def test_what_everybody_may_write_is_no_hook(hook: Path, place: int, mode: int, words: str) -> None:
    [hook, *hook.parents][place].chmod(mode)
    found = _fault(str(hook), ANN)
    assert found.startswith(words) and bool(found) == bool(words)


@ROOT
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("owner", "mode", "refused"), [
    ((4001, 0), 0o755, True), ((0, 4002), 0o775, True), ((0, 4003), 0o775, True), ((0, 4003), 0o755, False),
    ((5000, 5000), 0o775, False),
])  # fmt: skip
def test_nor_is_what_the_jobs_account_may_write(
    hook: Path, place: int, owner: tuple[int, int], mode: int, refused: bool
) -> None:
    path = [hook, *hook.parents][place]
    os.chown(path, *owner)
    path.chmod(mode)
    assert bool(_fault(str(hook), ANN)) is refused
    # A starter that is not root is the job's account itself.
    assert _fault(str(hook), Identity()) == ""


def test_links_are_judged_by_both_ends(hook: Path, tmp_path: Path) -> None:
    sound = tmp_path / "link"
    sound.symlink_to(hook)
    assert _fault(str(sound), ANN) == ""
    hook.parent.chmod(0o777)
    assert "world-writable directory" in _fault(str(sound), ANN)
    hook.parent.chmod(0o755)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "link").symlink_to(hook)
    assert "world-writable directory" in _fault(str(tmp_path / "open" / "link"), ANN)


def test_links_on_the_way_count(hook: Path, tmp_path: Path) -> None:
    """A link that leads to another link, which others may exchange."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "site").symlink_to("../site")
    (tmp_path / "first").symlink_to(tmp_path / "open" / "site")
    named = str(tmp_path / "first" / "hooks" / "prog")
    assert _fault(named, ANN) == ""
    (tmp_path / "open").chmod(0o777)
    assert f"world-writable directory ({tmp_path / 'open'})" in _fault(named, ANN)
    (tmp_path / "open").chmod(0o1777)  # whoever made a link there may exchange it
    assert f"world-writable directory ({tmp_path / 'open'})" in _fault(named, ANN)
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be looked at" in _fault(str(tmp_path / "loop"), ANN)


@ROOT
def test_what_runs_as_root_is_roots_alone(hook: Path) -> None:
    assert fault_for_root(str(hook)) == ""
    for place in (0, 1, 2):
        path = [hook, *hook.parents][place]
        os.chown(path, 4001, 0)
        assert "others than root" in fault_for_root(str(hook))
        os.chown(path, 0, 4002)
        assert fault_for_root(str(hook)) == ""
        path.chmod(0o775)
        assert fault_for_root(str(hook))
        os.chown(path, 0, 0)
        assert fault_for_root(str(hook)) == ""
        path.chmod(0o777)
        assert "world-writable" in fault_for_root(str(hook))
        path.chmod(0o755)


def test_what_is_no_program_is_no_hook(hook: Path) -> None:
    assert _fault("prog", ANN) == "is not an absolute path"
    assert _fault(str(hook.parent), ANN) == "is not a file"
    assert _fault(str(hook) + "2", ANN) == "cannot be looked at: No such file or directory"


def said(status: int, **attributes: str) -> HookOutput:
    return HookOutput(status, {name: ExprTree(text) for name, text in attributes.items()})


@pytest.mark.parametrize(
    ("came", "how", "code", "subcode", "words"),
    [  # as HTCondor words them
        (said(7), How.HELD, 19, 7, "exited with status 7): <no message>"),
        (said(0, HookStatusCode="250", HookStatusMessage='"no licence"'), How.HELD, 19, 250,
         "reported status 250): no licence"),
        (said(3, HookStatusCode="300"), How.EVICTED, 1007, 300, "reported status 300): <no message>"),
        (said(7, HookStatusCode="-1"), How.HELD, 19, 7, "exited with status 7): <no message>"),
        (said(-9, HookStatusCode="0"), How.EVICTED, 1007, -9, "died with signal 9): <no message>"),
    ],
)  # fmt: skip
def test_what_becomes_of_a_job_after_a_hook(came: HookOutput, how: How, code: int, subcode: int, words: str) -> None:
    end = prepare_verdict("PREPARE_JOB", "/site/f7", came)
    assert end is not None
    assert (end.how, end.reason_code, end.reason_subcode) == (how, code, subcode)
    assert end.reason == f"PREPARE_JOB (f7) failed ({words}"


def test_a_hook_may_overrule_its_exit_status_with_success() -> None:
    assert prepare_verdict("PREPARE_JOB", "/x", said(7, HookStatusCode="0")) is None
    assert prepare_verdict("PREPARE_JOB", "/x", said(0)) is None


def test_a_hook_that_prepares_the_job_may_say_something() -> None:
    """As HTCondor 25.14.1 words it in the job's event log."""
    told = said(0, HookStatusMessage='"So far so good"').told("PREPARE_JOB", "/site/f7")
    assert told == "PREPARE_JOB (f7) succeeded (exited with status 0): So far so good"
    told = said(7, HookStatusCode="0", HookStatusMessage='"fine"').told("PREPARE_JOB", "/site/f7")
    assert told == "PREPARE_JOB (f7) succeeded (reported status 000): fine"
    assert said(0, HookStatusMessage="12").message == ""


def test_lines_that_are_no_attributes_are_skipped() -> None:
    found = parse_output('A = 1 + 1\nnot one\nB =\nC = "x=y"\n9 = 1\n')
    assert {name: str(tree) for name, tree in found.items()} == {"A": "1 + 1", "C": '"x=y"'}


def test_rules() -> None:
    programs = {
        "A_HOOK_PREPARE_JOB": "/a/prepare", "A_HOOK_JOB_EXIT": "/a/exit",
        "B_HOOK_PREPARE_JOB_BEFORE_TRANSFER": "/b/before",
    }  # fmt: skip
    rules = HookRules(default="a", programs=programs, prepare_arguments={"A": "1 'two words'"})
    assert list(rules.all(None)) == [("A_HOOK_PREPARE_JOB", "/a/prepare"), ("A_HOOK_JOB_EXIT", "/a/exit")]
    assert list(rules.all("b")) == [("B_HOOK_PREPARE_JOB_BEFORE_TRANSFER", "/b/before")]
    assert (rules.arguments(None), rules.arguments("b")) == (("1", "two words"), ())
    assert rules.any_before_transfer
    assert not HookRules(programs={"B_HOOK_PREPARE_JOB_BEFORE_TRANSFER": ""}).any_before_transfer


@pytest.mark.parametrize(
    ("result", "facts"),
    [
        (KeeperResult("exited", code=5), {"ExitBySignal": False, "ExitCode": 5,
                                          "ExitReason": "exited normally with status 5"}),
        (KeeperResult("signaled", code=15), {"ExitBySignal": True, "ExitSignal": 15,
                                             "ExitReason": "died on signal 15 (Terminated)"}),
        (KeeperResult("signaled", code=90), {"ExitBySignal": True, "ExitSignal": 90,
                                             "ExitReason": "died on signal 90 (Unknown signal 90)"}),
        (KeeperResult("lost"), {}),
    ],
)  # fmt: skip
def test_how_the_first_process_ended(result: KeeperResult, facts: dict[str, Any]) -> None:
    assert exit_attributes(result) == facts
