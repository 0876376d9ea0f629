"""What the web service takes of a submit description: nothing that is read, or run, with its own rights."""

from __future__ import annotations

import pytest
from slotwise.errors import SubmitError
from slotwise.web.submission import statements

_PLAIN: dict[str, object] = {"executable": "/bin/true", "initialdir": "/tmp"}


@pytest.mark.parametrize(
    "name",
    ["+a = 1\ninclude command : touch /tmp/x\n+b", "+a = 1\nqueue b from /etc/passwd\n+b", '+a = strcat("$ENV(HOME)","',
     "+a @=end", "include : /etc/passwd", "request_cpus\r", "+", "+\u212aa"],
)  # fmt: skip
def test_a_name_is_only_a_name(name: str) -> None:
    with pytest.raises(SubmitError, match="not taken over HTTP"):
        statements({"description": {**_PLAIN, name: '")'}})


@pytest.mark.parametrize(
    "value",
    ["$ENV(HOME)", "$env (HOME)", "$(nosuch:$EN$(nosuch:V)(HOME))", "$(request_a)V(HOME)", "$F(description)(HOME)",
     "$SUBSTR(description,0)(HOME)", "$(DOLLAR)ENV(HOME)", "$(SEC_PASSWORD_FILE)", "$$$(Cluster)", "$$(a:$(SPOOL))",
     "$CHOICE(0,/etc/passwd)", "a \\"],
)  # fmt: skip
def test_values_have_nothing_of_the_service(value: str) -> None:
    with pytest.raises(SubmitError):
        statements({"description": {**_PLAIN, "request_a": "$EN", "description": "$ENV", "arguments": value}})


def test_numbers_of_the_job_and_attributes_of_the_match_are_taken() -> None:
    given = {**_PLAIN, "+Told": '"US$ 3"', "arguments": "$(Cluster).$(ProcId) $$(Arch) $$([Memory * 2]) x$"}
    assert statements({"description": given}) == (given, 1)


def test_a_command_is_given_once() -> None:
    with pytest.raises(SubmitError, match="twice"):
        statements({"description": {**_PLAIN, "InitialDir": "relative"}})
