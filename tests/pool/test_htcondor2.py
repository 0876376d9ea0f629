"""A program written for HTCondor's module htcondor2, in a pool of Slotwise's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

_OURS = Path(__file__).resolve().parents[2] / "compat" / "src"

pytestmark = pytest.mark.skipif(not _OURS.exists(), reason="needs the sources of compat")

_PROGRAM = r"""
import json, pickle, sys, time
import classad2, htcondor2 as h

told = {}
collector = h.Collector()
location = collector.locate(h.DaemonType.Schedd)
told["slots"] = len(collector.query(h.AdType.Startd, projection=["Name"]))
schedd = h.Schedd(location)
echo = h.Submit({"executable": "/bin/echo", "arguments": "hi $(who)", "output": "out.$(ProcId)", "log": "x.log",
                 "submit_event_notes": "for $(who)", "request_memory": "10M", "request_disk": "1M"})
first = schedd.submit(echo, itemdata=iter([{"who": "alice"}, {"who": "bob"}]))
told["first"] = [first.cluster() > 0, first.num_procs(), first.first_proc(), first.clusterad()["Cmd"]]
schedd.submit(h.Submit("executable = /bin/pwd\noutput = pwd\nremote_initialdir = /usr\nlog = pwd.log\n"
                       "request_memory = 10M\nrequest_disk = 1M\nqueue"))
for event in h.JobEventLog("pwd.log").events(stop_after=120):
    if event.type is h.JobEventType.JOB_TERMINATED:
        break
log = h.JobEventLog("x.log")
ended = []
told["notes"] = {}
for event in log.events(stop_after=120):
    if event.type is h.JobEventType.SUBMIT:
        told["notes"][event.proc] = event["LogNotes"]
    if event.type is h.JobEventType.JOB_TERMINATED:
        ended.append((event.proc, event["ReturnValue"]))
        if len(ended) == 2:
            break
told["ended"] = sorted(ended)
log = pickle.loads(pickle.dumps(log))
waiting = h.Submit("executable = /bin/sleep\narguments = 1000\nlog = x.log\nrequirements = false\nqueue")
second = schedd.submit(waiting, count=3).cluster()
asked = schedd.query(f"ClusterId == {second}")
told["queued"] = [(ad["ProcId"], ad["JobStatus"], ad["JobSubmitMethod"]) for ad in asked]
told["held"] = schedd.act(h.JobAction.Hold, f"{second}.1", "because")["TotalSuccess"]
told["edited"] = schedd.edit([f"{second}.2"], "JobPrio", "5")
told["exceptions"] = []
for call in (
    lambda: schedd.edit([f"{second}.2", "99999.0"], "JobPrio", "6"),
    lambda: schedd.edit("ClusterId == 99999", "JobPrio", "6"),
    lambda: schedd.query(projection="ClusterId"),
    lambda: schedd.history("(("),
    lambda: schedd.submit(waiting, count=-1),
    lambda: collector.advertise([classad2.ClassAd()], "NO_SUCH_COMMAND"),
):
    try:
        call()
    except Exception as error:
        told["exceptions"].append([type(error).__name__, str(error)])
told["unknown_users"] = [h.Negotiator().resetUsage("never@here"), h.Negotiator().deleteUser("never@here")]
told["server_time"] = [abs(ad["ServerTime"] - time.time()) < 3600 for ad in schedd.query("true", ["ProcId"], limit=1)]
told["then"] = [(ad["JobStatus"], ad["JobPrio"]) for ad in schedd.query(f"ClusterId == {second}")]
grouped = schedd.query(f"ClusterId == {second}", ["JobPrio"], opts=h.QueryOpt.GroupBy)
told["groups"] = [(ad["JobPrio"], ad["JobCount"], ad["JobIds"]) for ad in grouped]
told["alike"] = [ad["JobCount"] for ad in schedd.query(f"ClusterId == {second}", opts=h.QueryOpt.AutoCluster)]
told["with_clusters"] = [dict(ad) for ad in schedd.query(
    f"ProcId is undefined && ClusterId == {second}", ["ClusterId", "ProcId", "JobStatus", "JobsPresent", "ClusterSize"],
    opts=h.QueryOpt.IncludeClusterAd)]
told["clusters_of_jobs"] = [ad.get("ProcId") for ad in schedd.query(f"ClusterId == {second}",
    opts=h.QueryOpt.IncludeClusterAd)]
told["with_sets"] = len(schedd.query(f"ClusterId == {second}", opts=h.QueryOpt.IncludeJobsetAds))
told["removed"] = schedd.act(h.JobAction.Remove, classad2.ExprTree(f"ClusterId == {second}"))["TotalSuccess"]
aborted = 0
for event in log.events(stop_after=60):
    aborted += event.type is h.JobEventType.JOB_ABORTED
    if aborted == 3:
        break
told["aborted"] = aborted
told["history"] = sorted(ad["ProcId"] for ad in schedd.history(f"ClusterId == {first.cluster()}", ["ProcId"]))
told["epochs"] = sorted(ad["ProcId"] for ad in schedd.jobEpochHistory(f"ClusterId == {first.cluster()}", ["ProcId"]))
pinged = h.ping(location, "WRITE")
told["pinged"] = [pinged["AuthCommand"], pinged["AuthorizationSucceeded"], h.ping(location["MyAddress"])["AuthCommand"]]
told["param"] = [h.param["NEGOTIATOR_INTERVAL"], "NO_SUCH_KNOB" in h.param]
told["remote"] = h.RemoteParam(location)["NEGOTIATOR_INTERVAL"]
collector.advertise([classad2.ClassAd({"Name": "x1", "MyType": "Thing", "A": 5})])
told["thing"] = collector.query(h.AdType.Any, 'MyType == "Thing"')[0]["A"]
collector.advertise([classad2.ClassAd({"Name": "x1"})], "INVALIDATE_AD_GENERIC")
told["users"] = len(schedd.queryUserAds())
told["priorities"] = any("@" in str(ad["Name"]) for ad in h.Negotiator().getPriorities())
startd = h.Startd(collector.locate(h.DaemonType.Startd))
startd.cancelDrainJobs(startd.drainJobs())
told["there"] = sorted(ad["ProcId"] for ad in startd.history(f"ClusterId == {first.cluster()}", ["ProcId"]))
told["newest"] = len(h.Startd().history(match=1))
told["since"] = [len(startd.history(since=end)) for end in ("ClusterId < 0", "ClusterId > 0")]
told["asked_itself"] = [ad["SlotType"] for ad in h.Collector(collector.locate(h.DaemonType.Startd)["MyAddress"]).query(
    h.AdTypes.Startd, "SlotType == \"Partitionable\"", ["SlotType"])]
stays = schedd.submit(h.Submit("executable = /bin/sleep\narguments = 1000\nlog = stays.log\nrequest_disk = 1M\nqueue"))
for event in h.JobEventLog("stays.log").events(stop_after=120):
    if event.type is h.JobEventType.EXECUTE:
        break
told["claimed"] = []
deadline = time.monotonic() + 120
while not told["claimed"] and time.monotonic() < deadline:  # the collector learns of the slot a moment later
    time.sleep(0.1)
    told["claimed"] = [ad["State"] for ad in h.Collector(location["MyAddress"]).query(
        h.AdType.Startd, 'State == "Claimed"', ["State", "Name"])]
schedd.act(h.JobAction.Remove, str(stays.cluster()))
told["kinds"] = [len(schedd.jobEpochHistory(f"ClusterId == {first.cluster()}", ["ProcId"], ad_type=kinds))
                 for kinds in ("epoch", ["epoch", "input"], ("INPUT",), "epoch,input")]
told["missing"] = []
for lacks in ({"executable": "missing.sh"}, {"executable": "/bin/true", "transfer_input_files": "missing"},
              {"executable": "/bin/true", "input": "missing"}, {"executable": "missing/", "universe": "vanilla"}):
    queued = schedd.submit(h.Submit({**lacks, "requirements": "false"}))
    told["missing"].append(queued.num_procs())
    schedd.act(h.JobAction.Remove, str(queued.cluster()))
told["authenticated"] = h.ping(location, "WRITE")["Authentication"]
told["itself"] = isinstance(schedd.daemonHistory(match=1), list)
told["refused"] = []
nope = h.Submit("executable = /bin/nope\nuniverse = grid\nqueue")
for wrong in (lambda: schedd.submit(nope), lambda: schedd.act(h.JobAction.Hold, "a b"),
              lambda: schedd.export_jobs("1", "a", "b"), lambda: h.Credd().add_password("x"),
              lambda: h.JobEventLog("nope.log"), lambda: schedd.addProjectRec("x")):
    try:
        wrong()
    except (h.HTCondorException, ValueError) as error:
        told["refused"].append(type(error).__name__)
h.send_command(location, h.DaemonCommand.Reconfig)
schedd.reschedule()
print(json.dumps(told))
"""


def test_a_program_for_htcondor2_runs_unchanged(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 4\nSTARTD_HISTORY = $(LOG)/startd_history\n")
    pool.up()
    env = {**os.environ, **pool.env}
    env["PYTHONPATH"] = os.pathsep.join([str(_OURS), *filter(None, [env.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["slots"] >= 1
    assert told["claimed"] == ["Claimed"]
    assert told["first"] == [True, 2, 0, "/bin/echo"]
    assert told["ended"] == [[0, 0], [1, 0]]
    assert [(tmp_path / f"out.{proc}").read_text() for proc in (0, 1)] == ["hi alice\n", "hi bob\n"]
    assert told["notes"] == {"0": "for alice", "1": "for bob"}
    assert (tmp_path / "pwd").read_text() == "/usr\n"
    assert told["queued"] == [[0, 1, 2], [1, 1, 2], [2, 1, 2]]
    assert (told["held"], told["edited"]) == (1, 1)
    # As recorded of 25.14, each.
    assert told["exceptions"] == [
        [
            "HTCondorException",
            "Unable to commit transaction:Modifying attribute JobPrio in nonexistent job 99999.0",
        ],
        ["HTCondorException", "Unable to edit jobs matching constraint"],
        ["TypeError", "projection must be a list"],
        ["ValueError", "invalid constraint"],
        ["ValueError", "invalid Queue statement"],
        ["ValueError", "invalid command NO_SUCH_COMMAND"],
    ]
    assert (told["unknown_users"], told["server_time"]) == ([None, None], [True])
    assert told["then"] == [[1, 0], [5, 0], [1, 5]]
    second = told["groups"][1][2].split(".")[0]
    assert told["groups"] == [[0, 2, f"{second}.0 {second}.1"], [5, 1, f"{second}.2"]]
    assert told["alike"] == [3]
    assert told["with_sets"] == 3
    (of_cluster,) = told["with_clusters"]
    assert of_cluster.pop("ClusterId") > 0
    assert of_cluster == {"JobStatus": 1, "JobsPresent": 3, "ClusterSize": 3}
    assert sorted(told["clusters_of_jobs"], key=str) == [0, 1, 2, None]
    assert told["there"] == [0, 1]
    assert (told["newest"], told["since"]) == (1, [3, 0])
    assert (told["removed"], told["aborted"]) == (3, 3)
    assert told["history"] == [0, 1]
    assert told["epochs"] == [0, 1]
    assert told["pinged"] == [60021, True, 60011]
    assert told["param"][1] is False
    assert str(told["param"][0]) == told["remote"]
    assert told["itself"] is True
    assert told["authenticated"] == "YES"
    assert told["thing"] == 5
    assert told["users"] == 1
    assert told["priorities"] is True
    assert told["asked_itself"] == ["Partitionable"]
    assert told["kinds"] == [2, 2, 0, 2]
    assert told["missing"] == [1, 1, 1, 1], "HTCondor's modules look at no files: the runs do"
    assert told["refused"] == [
        "HTCondorException",
        "ValueError",
        *["HTCondorException"] * 4,
    ]


_PERSONAL = r"""
import json, os, sys
import htcondor2 as h
from htcondor2.personal import PersonalPool, PersonalPoolState

told = []
here = os.environ["SLOTWISE_HOME"]
with PersonalPool(sys.argv[1], config={"NUM_CPUS": "3"}, raw_config="MEMORY = 300", use_config=False) as pool:
    told += [pool.state, pool.get_config_val("MEMORY"), os.environ["SLOTWISE_HOME"] == here]
    told += [ad["Cpus"] for ad in pool.collector.query(h.AdType.Startd, projection=["Cpus"])]
    pool.schedd.submit(h.Submit("executable = /bin/true\nrequirements = false\nqueue 2"))
    told += [len(pool.schedd.query()), pool.run_command(["condor_q", "-af", "ProcId"]).stdout]
    with pool.use_config():
        inside = h.Schedd()
    told += [len(inside.query())]
    told += [PersonalPool.attach(sys.argv[1]).detach().state, os.environ["SLOTWISE_HOME"]]
    try:
        PersonalPool(sys.argv[1], use_config=False).start()
    except h.HTCondorException as error:
        told += ["attach" in str(error)]
told += [pool.state, len(pool.who())]
print(json.dumps(told))
"""


def test_programs_start_pools_of_their_own(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    env = make_pool("").env
    env["PYTHONPATH"] = os.pathsep.join([str(_OURS), *filter(None, [env.get("PYTHONPATH")])])
    own = Pool(tmp_path / "own")
    local = own.home.root
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PERSONAL, str(local)],
            env=env,
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_S,
        )
    finally:
        own.destroy()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == ["READY", "300", True, 3, 2, "0\n1", 2, "READY", str(local), True, "STOPPED", 0]
