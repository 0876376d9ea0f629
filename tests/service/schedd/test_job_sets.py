"""Job sets (submit command ``jobset``, USE_JOBSETS), as HTCondor 25.14 keeps them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from slotwise.classad import ClassAd
from slotwise.cli.htcondor.job_set_file import parse
from slotwise.errors import UsageError
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint
from tests.support.command import Result, command
from tests.support.execution_point import ExecutionPoint


@pytest.fixture
async def schedd(tmp_path: Path) -> AsyncIterator[RunningAccessPoint]:
    running = await RunningAccessPoint(tmp_path / "pool").start(USE_JOBSETS="true")
    try:
        yield running
    finally:
        await running.stop()


async def sets(schedd: RunningAccessPoint, *words: str) -> list[dict[str, Any]]:
    found = await command(schedd.home.root, "q", "-jobset", "-json", *words)
    ads: list[dict[str, Any]] = json.loads(found.out or "[]")
    return ads


async def test_clusters_of_one_name_are_one_set(schedd: RunningAccessPoint) -> None:
    first = await schedd.submit(2, JobSetName="Alpha")
    second = await schedd.submit(1, JobSetName="alpha")
    third = await schedd.submit(1, JobSetName="Beta", JobStatus=5)
    await schedd.submit(1)
    alpha, beta = await sets(schedd)
    me = schedd.owner
    assert {name: alpha[name] for name in alpha if name != "ServerTime"} == {
        "MyType": "JobSet", "JobSetId": first, "JobSetName": "Alpha", "Owner": me, "User": f"{me}@here",
        "RefCount": 5, "NumJobs": 3, "NumIdle": 3, "NumRunning": 0, "NumHeld": 0, "NumCompleted": 0, "NumRemoved": 0,
        "NumSuspended": 0, "NumSchedulerJobs": 0, "NumSchedulerIdle": 0, "NumSchedulerRunning": 0,
        "NumSchedulerHeld": 0, "NumSchedulerCompleted": 0, "NumSchedulerRemoved": 0,
    }  # fmt: skip
    assert (beta["JobSetId"], beta["NumHeld"], beta["NumIdle"]) == (third, 1, 0)
    ads = {ad["ClusterId"]: (ad.get("JobSetId"), ad.get("JobSetName")) for ad in await schedd.jobs()}
    assert ads[first] == (first, "Alpha") and ads[second] == (first, "alpha") and ads[third] == (third, "Beta")
    assert [ad["JobSetName"] for ad in await sets(schedd, "-constraint", "NumHeld > 0")] == ["Beta"]
    shown = await command(schedd.home.root, "q", "-jobset")
    assert shown.status == 0, shown.err
    assert [line.split() for line in shown.out.splitlines() if "Alpha" in line] == [
        [str(first), "Alpha", me, "0", "0", "3", "0", "0"]
    ]


async def test_a_set_counts_what_left_and_goes_with_its_last_cluster(
    schedd: RunningAccessPoint, point: ExecutionPoint
) -> None:
    first = await schedd.submit(1, JobSetName="Alpha")
    await schedd.negotiate(point.address)

    async def done() -> bool:
        return not await schedd.jobs(f"ClusterId == {first}")

    second = await schedd.submit(2, JobSetName="Alpha", JobStatus=5)
    await schedd.until(done)
    await schedd.act("REMOVE", f"ClusterId == {second} && ProcId == 0")
    await schedd.kill()
    await schedd.start(USE_JOBSETS="true")
    (alpha,) = await sets(schedd)
    counted = ("JobSetId", "NumJobs", "NumHeld", "TotalCompletedJobs", "TotalRemovedJobs", "RefCount")
    assert [alpha[name] for name in counted] == [first, 1, 1, 1, 1, 2]
    third = await schedd.submit(1, JobSetName="ALPHA")
    assert [ad["JobSetId"] for ad in await schedd.jobs(f"ClusterId == {third}")] == [first]
    await schedd.act("REMOVE", 'JobSetName == "alpha"')
    assert await sets(schedd) == []
    fourth = await schedd.submit(1, JobSetName="Alpha")
    (alpha,) = await sets(schedd)
    assert (alpha["JobSetId"], "TotalCompletedJobs" in alpha) == (fourth, False)


async def test_without_job_sets_submitters_are_told(tmp_path: Path) -> None:
    running = await RunningAccessPoint(tmp_path / "pool").start()
    try:
        cluster = await running.submit(1, JobSetName="Alpha")
        (ad,) = await running.jobs(f"ClusterId == {cluster}")
        assert (ad["JobSetName"], "JobSetId" in ad) == ("Alpha", False)
        assert await sets(running) == []
        text = "executable = /bin/true\nhold = true\njobset.name = Beta\njobset.Color = 1\nqueue\n"
        said = await described(running, tmp_path, text)
        assert "schedd does not support jobsets.  Ignoring JOBSET.* attributes" in said.err
    finally:
        await running.stop()


async def described(schedd: RunningAccessPoint, directory: Path, text: str) -> Result:
    """Submit a description with the command."""
    (directory / "described.sub").write_text(text)
    return await command(schedd.home.root, "submit", "described.sub", cwd=directory)


async def test_attributes_of_a_set_are_those_that_were_given_last(schedd: RunningAccessPoint, tmp_path: Path) -> None:
    async def submit(*lines: str) -> Result:
        return await described(
            schedd, tmp_path, "\n".join(("executable = /bin/true", "hold = true", *lines, "queue", ""))
        )

    done = await submit("jobset = Alpha", 'jobset.Color = "red"', "jobset.Size = 3 + 4")
    assert done.status == 0 and "WARNING" not in done.err, done.err
    done = await submit("jobset = alpha", 'jobset.COLOR = "black"', 'jobset.Shape = "round"')
    assert done.status == 0, done.err
    done = await submit("jobset.Color = 1")
    assert done.status == 0, done.err
    taken = (
        "jobset.JobSetId = 99", 'jobset.Owner = "root"', 'jobset.User = "root@x"', 'jobset.MyType = "Foo"',
        "jobset.NumJobs = 77", "jobset.TotalRemovedJobs = 5", "jobset.ServerTime = 1", "jobset.Fine = 1",
    )  # fmt: skip
    done = await submit("jobset = Evil", *taken)
    assert done.status == 0
    for name in ("JobSetId", "Owner", "User", "MyType", "NumJobs", "TotalRemovedJobs", "ServerTime"):
        assert f"jobset.{name} was ignored: the access point gives this attribute of a job set" in done.err
    assert "jobset.Fine" not in done.err

    for is_again in (False, True):
        alpha, third, evil = await sets(schedd)
        assert (alpha["Color"], alpha["Shape"], alpha["JobSetName"]) == ("black", "round", "Alpha"), is_again
        assert "3 + 4" in str(alpha["Size"]) and "COLOR" not in alpha
        assert (third["JobSetName"], third["JobSetId"], third["Color"]) == ("3", 3, 1)
        assert (evil["JobSetId"], evil["Owner"], evil["MyType"], evil["NumJobs"]) == (4, schedd.owner, "JobSet", 1)
        assert evil["Fine"] == 1 and "TotalRemovedJobs" not in evil and evil["ServerTime"] > 1
        assert [ad["JobSetId"] for ad in await sets(schedd, "-constraint", "Size == 7")] == [1]
        await schedd.kill()
        await schedd.start(USE_JOBSETS="true")
    assert (await command(schedd.home.root, "rm", "-constraint", 'JobSetName == "alpha"')).status == 0
    done = await submit("jobset = Alpha")
    assert done.status == 0
    *_, alpha = await sets(schedd)
    assert alpha["JobSetName"] == "Alpha" and not {"Color", "Shape", "Size"} & alpha.keys()


async def test_what_a_refused_submission_says_of_a_set_is_forgotten(schedd: RunningAccessPoint) -> None:
    await schedd.submit(1, JobSetName="Alpha", JobStatus=5)

    async def refused(*clusters: tuple[dict[str, Any], bytes]) -> str:
        ad = {"Cmd": "/bin/true", "Iwd": "/", "JobUniverse": 5, "JobStatus": 5}
        bundle = schedd_pb2.SubmitBundle()
        for more, about_set in clusters:
            bundle.clusters.add(
                cluster_ad=pack_ads([ClassAd({**ad, **more})]),
                procs=schedd_pb2.ProcBatch(count=1),
                job_set_ad=about_set,
            )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await schedd.stub.SubmitOne(bundle, metadata=schedd.user)
        return str(caught.value.details())

    color = pack_ads([ClassAd({"Color": "red"})])
    large = pack_ads([ClassAd({"Text": "x" * 70_000})])
    assert "without JobSetName" in await refused(({}, color))
    assert "have 70" in await refused(({"JobSetName": "Alpha"}, color), ({"JobSetName": "Alpha"}, large))
    assert "have 70" in await refused(({"JobSetName": "Beta"}, color), ({"JobSetName": "Gamma"}, large))
    assert "one ad, 2 came" in await refused(
        ({"JobSetName": "Alpha"}, pack_ads([ClassAd({"Color": 1}), ClassAd({"Color": 2})]))
    )
    assert "is not the name" in await refused(
        ({"JobSetName": "Alpha"}, pack_ads([ClassAd({"Color = 1\nOwner": "root"})]))
    )
    (alpha,) = await sets(schedd)
    assert (alpha["JobSetName"], alpha["NumHeld"], alpha["RefCount"], "Color" in alpha) == ("Alpha", 1, 2, False)


SET = """# two kinds of work
name = Letters
iterator = table a, b {
  x y, 1   # the first
  z, 2
}
job word=a {
  executable = /bin/echo
  arguments = $(word) $(B)
  hold = true
  queue
}
job twice.sub
"""


async def test_a_job_set_file_queues_its_jobs_for_each_row(schedd: RunningAccessPoint, tmp_path: Path) -> None:
    async def htcondor(*words: str, use: str = "true") -> Result:
        more = {"_CONDOR_USE_JOBSETS": use, "_CONDOR_FULL_HOSTNAME": "here"}
        return await command(schedd.home.root, "htcondor", "jobset", *words, cwd=tmp_path, more_env=more)

    (tmp_path / "set").write_text(SET)
    (tmp_path / "twice.sub").write_text("executable = /bin/true\nhold = true\narguments = $(b)\nqueue 2\n")
    assert "USE_JOBSETS is false" in (await htcondor("submit", "set", use="false")).err
    assert (await htcondor("list")).err == "No active job sets found.\n"
    done = await htcondor("submit", "set")
    assert (done.status, done.err) == (0, "Submitted job set Letters containing 2 job clusters.\n")
    jobs = await schedd.jobs('JobSetName == "letters" && InJobSet && JobSubmitMethod == 5')
    assert sorted((ad["ClusterId"], ad["ProcId"], ad["Args"]) for ad in jobs) == [
        (1, 0, "x y 1"), (1, 1, "z 2"), (2, 0, "1"), (2, 1, "1"), (2, 2, "2"), (2, 3, "2"),
    ]  # fmt: skip
    assert (await htcondor("list")).out == "JOB_SET_NAME\nLetters\n"
    assert (await htcondor("list", "--allusers")).out.splitlines()[1] == f"{schedd.owner}  Letters"
    status = await htcondor("status", "letters")
    assert status.err.splitlines() == [
        "Letters currently has 0 jobs idle, 0 jobs running, 6 jobs held, and 0 jobs completed.",
        "Letters contains:",
        "\tJob cluster 1 with 2 total jobs",
        "\tJob cluster 2 with 4 total jobs",
    ]
    removed = await htcondor("remove", "letters")
    assert removed.err == f"Removed 6 jobs matching job set letters for user {schedd.owner}.\n"
    assert await sets(schedd) == []
    (tmp_path / "twice.sub").write_text("executable = /bin/true\nhold = true\nrequirements = ((\nqueue\n")
    failed = await htcondor("submit", "set")
    assert failed.err.startswith("Error while submitting job 1 from set:\n")
    assert await schedd.jobs() == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("iterator = table a {\n1\n}\n", "Required name not found in set"),
        ("name = x\n", "Required iterator not found in set"),
        ("name = x\nname = y\n", "Job set name can only be set once, second name found in set at line 2."),
        ("name =\n", "Blank job set name found in set at line 1."),
        ("name\n", "Malformed name command in set at line 1."),
        ("nome = x\n", 'Unrecognized command "nome" in set at line 1.'),
        ("iterator = table {\n", 'Unparseable iterator "table {" in set at line 1.'),
        ("iterator = list a {\n}\n", 'Unknown iterator type "list" in set at line 1.'),
        ("iterator = table a {\n1\n", "Unclosed bracket in set starting at line 1."),
        (
            "iterator = table a b {\n1\n}\n",
            "Mismatch between number of iterator names (2) and values (1) in set at line 2.",
        ),
        ("\njob x a {\n}\n", 'Unsupported mapping "x a" in set at line 2.'),
        ("job other.sub\n", "Error opening submit description file other.sub in set at line 1:\n"),
    ],
)
def test_a_job_set_file_that_is_wrong_is_refused_as_htcondor_does(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "set", lambda name: (tmp_path / name).read_text())
    assert caught.value.message.startswith(why)
