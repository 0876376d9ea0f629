"""Job transforms and submit requirements at a running schedd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import htcondor2
import pytest
from slotwise.classad import ClassAd, define_user_map
from slotwise.errors import ConfigError
from slotwise.table import pack_ads
from slotwise.wire.gen import schedd_pb2

from tests.support.access_point import RunningAccessPoint


def rules(*transforms: str, **knobs: str) -> dict[str, str]:
    """Knobs with transforms T0, T1 ... of these texts."""
    names = [f"T{number}" for number in range(len(transforms))]
    texts = "".join(f"\nJOB_TRANSFORM_{name} @=end\n{text}\n@end" for name, text in zip(names, transforms, strict=True))
    return {"JOB_TRANSFORM_NAMES": " ".join(names) + texts, **knobs}


@pytest.fixture
async def access_point(tmp_path: Path) -> Any:
    """Starts a schedd with knobs; stops it at the end."""
    made: list[RunningAccessPoint] = []

    async def start(**knobs: str) -> RunningAccessPoint:
        point = await RunningAccessPoint(tmp_path / "pool").start(**knobs)
        made.append(point)
        return point

    yield start
    for point in made:
        await point.stop()


async def refused(submission: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await submission
    return str(error.value.details())


async def submitted(point: RunningAccessPoint, count: int = 1, **attributes: Any) -> schedd_pb2.SubmitReply:
    """The whole reply to a submission."""
    ad = {"Cmd": "/bin/true", "Iwd": str(point.home.root), "JobUniverse": 5, "Requirements": True, **attributes}
    cluster = schedd_pb2.ClusterSubmission(cluster_ad=pack_ads([ClassAd(ad)]), procs=schedd_pb2.ProcBatch(count=count))
    return await point.stub.SubmitOne(schedd_pb2.SubmitBundle(clusters=[cluster]), metadata=point.user)


async def test_transforms_change_jobs_in_order(access_point: Any) -> None:
    point = await access_point(
        **rules(
            'REQUIREMENTS WantIt\nSET Project "default"\nDEFAULT Memo 7\nDELETE Gone\nRENAME Old New',
            'EVALSET Memo Memo + 1\nEVALSET AccountingGroup strcat(Project, ".", Owner)',
        )
    )
    await point.submit(2, WantIt=True, Gone=1, Old="x")
    await point.submit(1, Gone=1, Old="x", Memo=1, Project="own")
    first, second, other = sorted(await point.jobs(), key=lambda ad: (ad["ClusterId"], ad["ProcId"]))
    for ad in (first, second):
        assert (ad["Project"], ad["Memo"], ad["New"]) == ("default", 8, "x")
        assert "Gone" not in ad and "Old" not in ad
        assert ad["AccountingGroup"] == f"default.{point.owner}"
    assert (other["Memo"], other["Old"], other["Gone"]) == (2, "x", 1)
    assert {cluster.submitter for cluster in point.point.queue.clusters.values()} == {
        f"default.{point.owner}@here",
        f"own.{point.owner}@here",
    }


async def test_the_manuals_accounting_groups_come_from_a_map(access_point: Any) -> None:
    point = await access_point(
        **rules(
            'EVALSET AcctGroup = userMap("Groups",Owner,AcctGroup)\nEVALSET AccountingGroup = join(".",AcctGroup,Owner)'
        )
    )
    define_user_map("Groups", f"* {point.owner} physics,chemistry\n")
    await point.submit()
    await point.submit(AcctGroup="chemistry")
    define_user_map("Groups", None)
    groups = sorted(ad["AccountingGroup"] for ad in await point.jobs())
    assert groups == [f"chemistry.{point.owner}", f"physics.{point.owner}"]


async def test_jobs_of_a_cluster_are_changed_each_where_they_differ(access_point: Any) -> None:
    point = await access_point(
        **rules("SET Number $(MY.ProcId) + 10\nEVALSET Twice Size * 2\nif Size > 1\nDELETE Memo\nendif")
    )
    await point.submit(procs=[{"Size": 1}, {"Size": 2}, {"Size": 3}], Memo=5)
    ads = sorted(await point.jobs(), key=lambda ad: ad["ProcId"])
    assert [ad.eval("Number") for ad in ads] == [10, 11, 12]
    assert [ad["Twice"] for ad in ads] == [2, 4, 6]
    assert [ad.get("Memo") if isinstance(ad.get("Memo"), int) else None for ad in ads] == [5, None, None]


async def test_what_jobs_set_themselves_gives_way_to_a_transform(access_point: Any) -> None:
    point = await access_point(**rules("SET Size 9"))
    await point.submit(procs=[{"Size": 1, "Memo": 1}, {"Size": 2, "Memo": 2}])
    assert sorted((ad["Size"], ad["Memo"]) for ad in await point.jobs()) == [(9, 1), (9, 2)]


@pytest.mark.parametrize("late", [{}, {"JobMaterializeLimit": 2}])
@pytest.mark.parametrize("rule", ["SET Size 9", "if MY.ProcId >= 0\nSET Size 9\nendif"])
async def test_a_job_that_differs_is_changed_to_what_its_cluster_says(
    access_point: Any, rule: str, late: dict[str, int]
) -> None:
    """Whether the rule is run on one job for all, or on each."""
    point = await access_point(**rules(rule))
    await point.submit(procs=[{"Size": 1, "Memo": 1}, {"Memo": 2}], Size=9, **late)

    async def there() -> bool:
        return len(await point.jobs()) == 2

    await point.until(there)
    assert sorted((ad["Size"], ad["Memo"]) for ad in await point.jobs()) == [(9, 1), (9, 2)]


async def test_each_job_of_a_cluster_is_judged(access_point: Any) -> None:
    knobs = {
        "SUBMIT_REQUIREMENT_NAMES": "Even Small",
        "SUBMIT_REQUIREMENT_Even": "ProcId % 2 == 0",
        "SUBMIT_REQUIREMENT_Even_REASON": 'strcat("job ", ProcId, " is odd")',
        "SUBMIT_REQUIREMENT_Even_IS_WARNING": "true",
        "SUBMIT_REQUIREMENT_Small": "Size < 5",
        "SUBMIT_REQUIREMENT_Small_REASON": 'strcat("job ", ProcId, " has size ", Size)',
    }
    point = await access_point(**knobs)
    reply = await submitted(point, 4, Size=1)
    assert list(reply.warnings) == ["job 3 is odd", "job 1 is odd"]
    assert await refused(point.submit(procs=[{"Size": 4}, {"Size": 4}, {"Size": 6}, {"Size": 7}])) == "job 2 has size 6"
    assert (await refused(point.submit(procs=[{"Size": 4}, {"Size": "x"}]))).startswith("Submit requirement Small eval")


async def test_a_changed_job_is_the_same_after_a_restart(access_point: Any) -> None:
    knobs = rules("SET Number $(MY.ProcId) + 10\nDELETE Gone\nSET JobPrio 4")
    point = await access_point(**knobs)
    await point.submit(2, Gone=1)
    before = sorted(str(ad) for ad in await point.jobs())
    assert {job.priority for job in point.point.queue.clusters[1].jobs.values()} == {(0, 0, -4, 0, 0)}
    await point.stop()
    await point.start(**knobs)
    assert sorted(str(ad) for ad in await point.jobs()) == before
    assert {job.priority for job in point.point.queue.clusters[1].jobs.values()} == {(0, 0, -4, 0, 0)}


@pytest.mark.parametrize("statement", ["COPY /^Set(Owner)$/ \\1", "RENAME /^SetOwner$/ $(SUBST)", "DELETE /^NumJobSt/"])
async def test_a_transform_does_not_say_whose_a_job_is(access_point: Any, statement: str) -> None:
    point = await access_point(**rules(statement), SUBST="User")
    said = await refused(point.submit(SetOwner="root"))
    assert "Failed to apply a required job transform: it changes" in said
    assert await point.jobs() == []


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        (rules('SET Owner "root"'), "line 1: a transform may not change Owner"),
        (rules("SET A 1\nSAT B 2"), "JOB_TRANSFORM_T0:2: SAT is not a valid transform keyword"),
        ({"SUBMIT_REQUIREMENT_NAMES": "R", "SUBMIT_REQUIREMENT_R": "((("}, "SUBMIT_REQUIREMENT_R"),
    ],
)
async def test_rules_that_cannot_be_kept_stop_the_start(tmp_path: Path, knobs: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        await RunningAccessPoint(tmp_path / "pool").start(**knobs)
    assert why in str(error.value)


async def test_rules_without_effect_are_named_in_the_log(access_point: Any, caplog: pytest.LogCaptureFixture) -> None:
    await access_point(**rules("UNIVERSE vanilla\nSET A 1\nTRANSFORM 2", ""), SUBMIT_REQUIREMENT_NAMES="Gone")
    for told in (
        "JOB_TRANSFORM_T0: UNIVERSE has no effect",
        "JOB_TRANSFORM_T0: TRANSFORM with items has no effect",
        "JOB_TRANSFORM_T1 is not defined: the transform is left out",
        "SUBMIT_REQUIREMENT_Gone is not defined: the requirement is left out",
    ):
        assert told in caplog.text


async def test_a_requirement_refuses_the_whole_submission(access_point: Any) -> None:
    point = await access_point(
        SUBMIT_REQUIREMENT_NAMES="Small, Named, Sound",
        SUBMIT_REQUIREMENT_Small="(Size ?: 0) < 3",
        SUBMIT_REQUIREMENT_Small_REASON='strcat("Job ", ProcId, " is too large for ", MY.Name)',
        SUBMIT_REQUIREMENT_Named="TARGET.Owner == Owner && (Nameless ?: false) == false",
        SUBMIT_REQUIREMENT_Sound="Unsound ?: true",
    )
    said = await refused(point.submit(procs=[{"Size": 1}, {"Size": 2}, {"Size": 3}]))
    assert said.startswith("Job 2 is too large for ")
    assert "Submit requirement Named not met." in await refused(point.submit(Nameless=True))
    assert "Submit requirement Sound evaluated to non-boolean." in await refused(point.submit(Unsound="text"))
    assert await point.jobs() == []
    await point.submit(procs=[{"Size": 1}, {"Size": 2}])
    assert len(await point.jobs()) == 2


async def test_requirements_see_what_transforms_made(access_point: Any) -> None:
    point = await access_point(
        **rules('DEFAULT Project "none"'),
        SUBMIT_REQUIREMENT_NAMES="P",
        SUBMIT_REQUIREMENT_P='Project =!= undefined && Project != "bad"',
    )
    await point.submit()
    await refused(point.submit(Project="bad"))
    assert [ad["Project"] for ad in await point.jobs()] == ["none"]


async def test_warnings_reach_the_user_and_the_event_log(access_point: Any) -> None:
    point = await access_point(
        SUBMIT_REQUIREMENT_NAMES="W V",
        SUBMIT_REQUIREMENT_W="RequestMemory > 1024",
        SUBMIT_REQUIREMENT_W_REASON='"soon at least 1024"',
        SUBMIT_REQUIREMENT_W_IS_WARNING="true",
        SUBMIT_REQUIREMENT_V="false",
        SUBMIT_REQUIREMENT_V_IS_WARNING="true",
    )
    reply = await submitted(point, 2, RequestMemory=5, UserLog="job.log")
    assert list(reply.warnings) == ["Submit requirement V not met.", "soon at least 1024"]
    log = point.home.root / "job.log"
    assert len(list(htcondor2.JobEventLog(str(log)).events(stop_after=0))) == 2, "HTCondor reads it"
    told = "Committed job submission into the queue with the following warning(s): "
    assert log.read_text().count(f"{told}Submit requirement V not met.; soon at least 1024\n") == 2
    assert list((await submitted(point, RequestMemory=2048)).warnings) == ["Submit requirement V not met."]


async def test_edits_are_not_judged(access_point: Any) -> None:
    """As in HTCondor: condor_qedit changes what a requirement reads, below its bound and with its warning unsaid."""
    point = await access_point(
        SUBMIT_REQUIREMENT_NAMES="Least",
        SUBMIT_REQUIREMENT_Least="RequestMemory >= 64",
        IMMUTABLE_JOB_ATTRS="RequestCpus",
    )
    number = await point.submit(RequestMemory=200, RequestCpus=1)
    jobs = schedd_pb2.JobSelection(ids=[f"{number}.0"])
    reply = await point.stub.Edit(schedd_pb2.EditRequest(jobs=jobs, set={"RequestMemory": "10"}), metadata=point.user)
    assert dict(reply.totals) == {"success": 1}
    locked = schedd_pb2.EditRequest(jobs=jobs, set={"RequestCpus": "10"})
    assert "immutable" in await refused(point.stub.Edit(locked, metadata=point.user))
    (job,) = await point.jobs()
    assert (job["RequestMemory"], job["RequestCpus"]) == (10, 1)


async def test_jobs_that_are_made_late_are_changed_and_judged(access_point: Any) -> None:
    point = await access_point(
        **rules("SET Number $(MY.ProcId) + 10\nSET Cluster $(IsClusterAd)\nSET Late $(LateMaterialization)"),
        SUBMIT_REQUIREMENT_NAMES="R",
        SUBMIT_REQUIREMENT_R="(Size ?: 0) < 2",
    )
    number = await point.submit(procs=[{"Size": size} for size in range(3)], JobMaterializeLimit=2)
    queue = point.point.queue

    async def there() -> bool:
        return len(await point.jobs()) == 2

    await point.until(there)
    ads = sorted(await point.jobs(), key=lambda ad: ad["ProcId"])
    assert [(ad.eval("Number"), ad["Cluster"], ad["Late"]) for ad in ads] == [(10, 0, 1), (11, 0, 1)]
    request = schedd_pb2.ActRequest(
        action=schedd_pb2.ActRequest.REMOVE, jobs=schedd_pb2.JobSelection(ids=[f"{number}.0"])
    )
    await point.stub.Act(request, metadata=point.user)

    async def paused() -> bool:
        factory = queue.clusters[number].factory
        return factory is not None and factory.paused != 0

    await point.until(paused)
    assert [ad["ProcId"] for ad in await point.jobs()] == [1], "the third does not meet the requirement"


async def test_a_factory_is_refused_as_a_whole(access_point: Any) -> None:
    point = await access_point(
        **rules('REQUIREMENTS JobFactoryId =!= undefined\nSET Made "late"'),
        SUBMIT_REQUIREMENT_NAMES="R",
        SUBMIT_REQUIREMENT_R='Made =!= "late" || Fine',
    )
    await point.submit()
    await refused(point.submit(2, JobMaterializeLimit=1, Fine=False))
    assert len(point.point.queue.clusters) == 1
    await point.submit(2, JobMaterializeLimit=1, Fine=True)


async def test_only_the_cluster_of_a_factory_is_changed_where_the_knob_says_so(access_point: Any) -> None:
    point = await access_point(**rules("SET Size 7\nSET Memo $(MY.ProcId)"), TRANSFORM_FACTORY_AND_JOB_ADS="false")
    await point.submit(procs=[{"Size": 1}, {"Size": 2}], JobMaterializeLimit=2)

    async def there() -> bool:
        return len(await point.jobs()) == 2

    await point.until(there)
    assert [(ad["Size"], ad["Memo"]) for ad in await point.jobs()] == [(7, 0), (7, 0)]


async def test_attributes_that_only_the_schedd_gives(access_point: Any) -> None:
    """As HTCondor with IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS: left out wherever they come from, and never edited."""
    locks = {"SECURE_JOB_ATTRS": "Foo", "IMMUTABLE_JOB_ATTRS": "Bar", "PROTECTED_JOB_ATTRS": "Baz"}
    point = await access_point(**locks, **rules("REQUIREMENTS WantIt\nSET Foo 7\nSET Bar 7\nSET Baz 7"))
    said = {"Foo": 1, "Bar": 1, "Baz": 1, "AuthTokenSubject": "root"}
    await point.submit(**said)
    await point.submit(WantIt=True, **said)
    await point.submit(procs=[{"FOO": 1, "Bar": 2}, {"foo": 2, "Bar": 3}])
    await point.submit(procs=[{"Foo": 1, "Bar": 4}], JobMaterializeLimit=1)

    async def materialized() -> bool:
        return bool(point.point.queue.clusters[4].jobs)

    await point.until(materialized)
    ads = sorted(await point.jobs(), key=lambda ad: (ad["ClusterId"], ad["ProcId"]))
    assert [ad.get("Bar") for ad in ads] == [1, 7, 2, 3, 4]
    assert [ad.get("Baz") for ad in ads] == [1, 7, None, None, None]
    assert all("Foo" not in ad and "AuthTokenSubject" not in ad for ad in ads)
    assert ads[0]["TotalSubmitProcs"] == 1
    jobs = schedd_pb2.JobSelection(ids=["1.0"])
    for name, kind in (("FOO", "secure"), ("Bar", "immutable"), ("Owner", "immutable"), ("osuser", "immutable")):
        edit = point.stub.Edit(schedd_pb2.EditRequest(jobs=jobs, set={name: "5"}), metadata=point.user)
        assert await refused(edit) == f'Update of {kind} attribute "{name}" is not allowed.'


async def test_secure_attributes_are_refused_where_they_are_not_ignored(access_point: Any) -> None:
    point = await access_point(
        SECURE_JOB_ATTRS="Foo",
        IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS="false",
        **rules("REQUIREMENTS WantIt\nSET Foo 7"),
    )
    await point.submit()
    for attempt in (point.submit(Foo=1), point.submit(procs=[{"Foo": 1}, {}])):
        assert (await refused(attempt)).startswith("Attempt to set secure attribute Foo")
    assert (await refused(point.submit(WantIt=True))).startswith("Failed to apply a required job transform")
    assert len(await point.jobs()) == 1
