"""What `slotwise submit` warns of, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.classad import UNDEFINED, ClassAd, ExprTree
from slotwise.cli.jobs.submit_doubts import before
from slotwise.submit import parse
from slotwise.submit.doubts import Asked, beyond, fits_condition, largest, without_value


def job(statement: str) -> ClassAd:
    return parse(f"executable = /bin/true\n{statement}\nqueue\n").clusters[0].job(0)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("request_memory = lots", "request_memory = lots has no value: nothing defines lots"),
        ("request_cpus = many + 1", "nothing defines many"),
        ("request_gpus = Gpus", "request_gpus = Gpus has no value"),
    ],
)
def test_a_request_without_a_value_is_named_with_what_nothing_defines(statement: str, said: str) -> None:
    (text,) = without_value(job(statement))
    assert said in text


@pytest.mark.parametrize(
    "statement",
    [
        "request_memory = 1G",
        "request_memory = 2 * 512",
        "request_memory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage * 3 / 2, 1500)",
        "My.Size = 100\nrequest_memory = Size * 2",
        "request_gpus = 1",
        "request_memory = TARGET.TotalMemory / 2",  # a slot gives it its value
        "",
    ],
)
def test_requests_that_have_a_value_are_left_alone(statement: str) -> None:
    assert without_value(job(statement)) == []


def test_amounts_that_no_slot_has_are_named_with_the_largest() -> None:
    slots = [
        ClassAd({"Cpus": 0, "TotalSlotCpus": 8, "Memory": 100, "TotalSlotMemory": 16000, "Disk": 10**6}),
        ClassAd({"Cpus": 1, "Memory": 32000, "Disk": 5}),
    ]
    most = largest(slots)
    assert most == {"RequestCpus": 8, "RequestMemory": 32000, "RequestDisk": 10**6, "RequestGPUs": 0}
    assert beyond([Asked({"RequestCpus": 8.0, "RequestMemory": 32000.0})], most) == []
    assert beyond([Asked({"RequestCpus": 64.0, "RequestGPUs": 1.0})], most) == [
        "no slot of the pool has 64 cores (request_cpus); the largest has 8",
        "no slot of the pool has 1 GPU(s) (request_gpus); the largest has 0",
    ]
    condition = fits_condition(Asked({"RequestCpus": 8.0, "RequestMemory": 100.0}))
    assert [ExprTree(condition).eval(slot) for slot in slots] == [True, UNDEFINED]


def test_expressions_are_no_plain_amounts() -> None:
    assert "RequestMemory" not in Asked.of_job(job("request_memory = MemoryUsage * 2")).amounts
    assert Asked.of_job(job("request_memory = 1TB")).amounts["RequestMemory"] == 1024 * 1024


def test_directories_that_are_not_there_and_scripts_without_interpreter(tmp_path: Path) -> None:
    (tmp_path / "bare.sh").write_text("echo hello\n")
    (tmp_path / "good.sh").write_text("#!/bin/sh\necho hello\n")

    def said(program: str, more: str) -> list[str]:
        return before(parse(f"executable = {program}\n{more}\nqueue 3\n", cwd=tmp_path))

    (text,) = said("good.sh", "log = nodir/log")
    assert f"mkdir -p {tmp_path}/nodir" in text and text.startswith("log = ")
    assert [text.split(" = ")[0] for text in said("good.sh", "output = a/out\nerror = b/err")] == ["output", "error"]
    (text,) = said("bare.sh", "")
    assert "names no interpreter" in text and "#!/bin/sh" in text
    assert said("good.sh", "log = log\noutput = out") == []
    assert said("/bin/true", "transfer_executable = false\nlog = log") == []
    (tmp_path / "nodir").mkdir()
    assert said("good.sh", "log = nodir/log") == []


def test_a_reference_to_nothing_is_said_once_with_how_to_mean_it() -> None:
    made = parse(
        "executable = /bin/echo\narguments = $(sample) $(sample) $(given:) $(Process) $(empty)\nempty =\nqueue 3\n"
    )
    (text,) = [text for text in made.warnings if "not defined" in text]
    assert text.startswith("`$(sample)` is not defined") and "$(sample:)" in text
    assert not [text for text in parse("executable = /bin/true\nqueue 2\n").warnings if "not defined" in text]
