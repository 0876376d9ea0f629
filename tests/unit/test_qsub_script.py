"""Batch scripts of PBS and SGE as submit descriptions."""

from __future__ import annotations

from datetime import datetime

import pytest
from slotwise.cli.jobs.qsub_script import Call, Description, command_line, describe, directives, moment, together
from slotwise.errors import UsageError

NOW = datetime(2026, 11, 23, 12, 0)


def _described(*words: str, script: str = "", runs_itself: bool = True) -> Description:
    given = command_line([*words, "/home/ann/run.sh"] if "-b" not in words else words)
    name, *arguments = given.words
    call = Call(name, arguments, together(directives(script), given), "/home/ann", {"KNOWN": "here"}, NOW, runs_itself)
    return describe(call)


def _values(made: Description) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in made.lines if " = " in line)


def test_options_of_script_and_command_line_come_together_and_the_command_lines_count() -> None:
    script = '#!/bin/sh\n#PBS -N fit -p 3\n#$ -l mem=2gb # as much as it takes\n#PBS -M "a@b.org"\n## -h\n# -p 9\n'
    values = _values(_described("-p", "5", "-j", "oe", script=script))
    assert values["priority"] == "5" and values["request_memory"] == "2GB" and values["notify_user"] == "a@b.org"
    assert values["output"] == values["error"] == "fit.o$(Cluster)"
    assert "hold" not in values and values["executable"] == "/home/ann/run.sh"


def test_what_follows_the_script_is_its_own() -> None:
    given = command_line(["-N", "n", "-z", "run.sh", "-N", "other", "-q"])
    assert given.words == ["run.sh", "-N", "other", "-q"] and given.value("N") == "n"


def test_letters_differ_by_case() -> None:
    values = _values(_described("-V", "-v", "A=1", "-A", "grp.ann", "-a", "1500", "-m", "a", "-M", "x@y"))
    assert values["getenv"] == "True" and values["accounting_group"] == "grp.ann"
    assert values["notification"] == "Error" and values["notify_user"] == "x@y"
    assert int(values["deferral_time"]) == int(datetime(2026, 11, 23, 15, 0).timestamp())


@pytest.mark.parametrize(
    ("resources", "wanted"),
    [
        ("nodes=1:ppn=4:gpus=2", {"request_cpus": "4", "request_gpus": "2"}),
        ("select=1:ncpus=8:mem=16gb:ngpus=1", {"request_cpus": "8", "request_memory": "16GB", "request_gpus": "1"}),
        ("procs=3,file=10mb", {"request_cpus": "3", "request_disk": "10MB"}),
        ("arch=X86_64,host=n1", {"requirements": '(TARGET.Arch == "X86_64") && (TARGET.Machine == "n1")'}),
        ("nodes=n7", {"requirements": '(TARGET.Machine == "n7")'}),
    ],
)
def test_resources(resources: str, wanted: dict[str, str]) -> None:
    assert wanted.items() <= _values(_described("-l", resources)).items()


@pytest.mark.parametrize(
    "words",
    [
        ("-l", "nodes=2:ppn=4"),
        ("-l", "nodes=a+b"),
        ("-l", "mem=much"),
        ("-l", 'host=x" || true || "'),
        ("-t", "5-1"),
        ("-t", "1-9999999"),
        ("-p", "high"),
        ("-a", "99"),
        ("-a", "2561"),
        ("-hold_jid", "4"),
        ("-W", "depend=afterok:5"),
        ("-N", "a\nqueue 1000"),
        ("-frob",),
        ("-N",),
    ],
)
def test_what_cannot_be_done_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        command = [*words] if words[-1] in ("-N",) else [*words, "run.sh"]
        given = command_line(command)
        describe(Call("run.sh", [], given, "/", {}, NOW, True))


def test_what_has_no_meaning_is_named() -> None:
    assert _described("-q", "long", "-c", "n", "-l", "walltime=1:00:00,mem=1gb").ignored == [
        "-c", "-q", "-l walltime=1:00:00",
    ]  # fmt: skip


def test_the_environment_has_what_scripts_look_for() -> None:
    made = _described("-N", "fit", "-v", "A=x y,KNOWN,UNKNOWN,Q=it's,D=$HOME")
    environment = _values(made)["environment"]
    for word in ("PBS_O_WORKDIR=/home/ann", "PBS_JOBNAME=fit", "PBS_JOBID=$(Cluster)", "'A=x y'", "KNOWN=here",
                 "UNKNOWN=True", "'Q=it''s'", "D=$(DOLLAR)HOME"):  # fmt: skip
        assert word in environment


def test_an_array_is_one_queue_statement() -> None:
    made = _described("-t", "2-8:3%2", "-o", "out/")
    assert made.lines[-2:] == ["max_materialize = 2", "queue task in (2, 5, 8)"]
    assert _values(made)["output"] == "out/run.sh.o$(Cluster).$(task)"
    assert "SGE_TASK_ID=$(task)" in _values(made)["environment"]


def test_a_script_that_does_not_run_by_itself_runs_by_a_shell() -> None:
    for words, shell in (((), "/bin/sh"), (("-S", "/bin/bash"), "/bin/bash")):
        values = _values(_described(*words, runs_itself=False))
        assert (values["executable"], values["arguments"]) == (shell, '"run.sh"')
        assert values["transfer_input_files"] == "/home/ann/run.sh" and values["transfer_executable"] == "False"
    command = _values(_described("-b", "y", "echo", "it's", "$HOME"))
    assert command["arguments"] == "\"-c 'echo it''s $(DOLLAR)HOME'\""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1530", datetime(2026, 11, 23, 15, 30)),
        ("1130", datetime(2026, 11, 24, 11, 30)),
        ("221130", datetime(2026, 12, 22, 11, 30)),
        ("12241530", datetime(2026, 12, 24, 15, 30)),
        ("2701021530", datetime(2027, 1, 2, 15, 30)),
        ("203001021530.07", datetime(2030, 1, 2, 15, 30, 7)),
    ],
)
def test_times_lie_ahead(text: str, wanted: datetime) -> None:
    assert moment(text, NOW) == wanted


def test_a_quote_that_does_not_close_is_named_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"line 2 of the script, \"#PBS -N it's\": no closing quotation"):
        directives("#!/bin/sh\n#PBS -N it's\n")


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "²"), ("-p", "+-3"), ("-p", "1" * 5000), ("-t", "1" * 5000), ("-t", "1-3%" + "1" * 5000),
        ("-l", "nodes=" + "1" * 5000), ("-l", "nodes=²"), ("-a", "²²²²"), ("-a", "12²0"),
    ],
)  # fmt: skip
def test_what_looks_like_a_number_and_is_none_is_refused(words: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        _described(*words)


def test_one_node_may_be_written_with_zeros() -> None:
    assert _values(_described("-l", "nodes=01:ppn=2"))["request_cpus"] == "2"
