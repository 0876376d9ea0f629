"""What commands say about bad words and failed calls: a message and a status, never a traceback."""

from __future__ import annotations

import io
from pathlib import Path

import grpc
import pytest
from slotwise.cli import main, registry
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.options import Option, parse
from slotwise.errors import AdSyntaxError


class _Failed(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "connection refused"


def _fails(_args: list[str], _inv: Invocation) -> int:
    raise _Failed


def test_a_call_that_fails_unexpectedly_is_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(main, "command", lambda _name: _fails)
    inv = Invocation(cwd=tmp_path, env={}, stdin=io.StringIO(), stdout=io.StringIO(), stderr=io.StringIO())
    assert main.dispatch(["status"], inv) == 1
    assert isinstance(inv.stderr, io.StringIO) and "does not answer (`slotwise up`" in inv.stderr.getvalue()


@pytest.mark.parametrize("text", ["((", "a) || (true", ""])
def test_each_constraint_must_be_an_expression_by_itself(text: str) -> None:
    options = [Option("constraint", 3, 1)]
    with pytest.raises(AdSyntaxError):
        parse(["-const", text], options).expressions("constraint")
    assert parse(["-const", "a", "-constr", "b > 1"], options).expressions("constraint") == ["a", "b > 1"]


@pytest.mark.parametrize(
    ("args", "resident"),
    [(["x.sub"], True), (["-terse", "x.sub"], True), (["-interactive"], False), (["--i", "x.sub"], False)],
)
def test_what_takes_the_terminal_runs_in_a_process_of_its_own(args: list[str], resident: bool) -> None:
    assert registry.COMMANDS["submit"].may_be_resident(args) is resident
    assert not registry.COMMANDS["ssh-to-job"].may_be_resident(args)
