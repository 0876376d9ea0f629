"""What the web service takes of a submit description: nothing that is read, or run, with its own rights."""

from __future__ import annotations

import pytest
from slotwise.errors import SubmitError, UsageError
from slotwise.submit.parsing import parse
from slotwise.web.submission import statements, submission

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


_TEXT = "executable = /bin/true\ninitialdir = /tmp\n"


def test_a_text_is_taken_line_by_line_with_its_comments_gone_and_its_lines_where_they_were() -> None:
    text = f'# mine\n{_TEXT}\n+Told = "a = b"\narguments = $(file) $(Process)\nQueue 2 file in (a.dat, /b/c-1.dat)\n'
    taken, count = submission({"text": text})
    assert isinstance(taken, str) and count is None
    assert taken.splitlines() == [
        "", "executable = /bin/true", "initialdir = /tmp", "", '+Told = "a = b"', "arguments = $(file) $(Process)",
        "Queue 2 file in (a.dat, /b/c-1.dat)",
    ]  # fmt: skip
    assert submission({"text": _TEXT + "queue"}) == (_TEXT + "queue\n", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("include : /etc/passwd\n", "line 3: 'include : /etc/passwd' is not taken"),
        ("include command : id\n", "line 3: .* is not taken"),
        ("getenv = true\nqueue", "line 3: 'getenv' is not taken"),
        ("transfer_inputs_files = x\nqueue", "line 3: .transfer_inputs_files. .*did you mean transfer_input_files"),
        ("arguments = $ENV(HOME)\nqueue", "line 3: .*the service's own"),
        ("arguments = $(nosuch)\nqueue", "line 3: .*the service's own"),
        ("arguments = $(file)\nqueue", "line 3: .*the service's own"),
        ("arguments = a \\\nqueue", "line 3: .*more than one line"),
        ("+a @=end\n", "line 3: .* is not taken"),
        ("if true\n", "line 3: .* is not taken"),
        ("queue file from /etc/passwd", "line 3: .* is not taken"),
        ("queue file matching *", "line 3: .* is not taken"),
        ("queue file in ($(x))", "line 3: .* is not taken"),
        ("queue file in (a$ENV)", "line 3: the item 'a.ENV'"),
        ("queue executable in (a)", "line 3: executable is a command"),
        ("queue request_cpus in (a)", "line 3: request_cpus is a command"),
        ("queue 0", "line 3: not from 1"),
        ("queue 100000 x in (a, b)", "line 3: not from 1"),
        ("queue\nqueue", "line 4: nothing may follow"),
        ("Executable = /bin/false\nqueue", "line 3: Executable is given twice"),
        ("", "no queue statement"),
    ],
)
def test_a_text_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SubmitError, match=said):
        submission({"text": _TEXT + text})


def test_a_text_is_bounded_and_needs_a_directory() -> None:
    with pytest.raises(UsageError, match="at most"):
        submission({"text": "#" * 70_000})
    with pytest.raises(SubmitError, match="initialdir"):
        submission({"text": "executable = /bin/true\nqueue"})


@pytest.mark.parametrize(
    "statement",
    [
        "arguments = " + "$(process) " * 1000,
        "arguments = $(process) " + "x" * 60_000,
        "requirements = member(Cpus, {$(process)" + ", 1" * 20_000 + "})",
    ],
    ids=["many-macros", "a-long-value", "an-expression"],
)
def test_all_expansions_of_a_description_have_a_bound_together(statement: str) -> None:
    """Each was within the bound of one expansion: a hundred thousand jobs took minutes, and gigabytes."""
    text = f"{_TEXT}{statement}\nqueue 100000\n"
    taken, _ = submission({"text": text})
    assert isinstance(taken, str)
    with pytest.raises(SubmitError, match="too much work for all its jobs"):
        parse(taken, elsewhere=True)
    few = parse(taken.replace("queue 100000", "queue 5"), elsewhere=True)
    assert sum(cluster.count for cluster in few.clusters) == 5


def test_many_ordinary_jobs_are_within_it() -> None:
    lines = f"arguments = -n $(process) {'x' * 200}\noutput = out.$(process)\nerror = err.$(process)"
    text = f"{_TEXT}{lines}\nqueue 100000\n"
    assert sum(cluster.count for cluster in parse(text, elsewhere=True).clusters) == 100_000
