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

_OURS = Path(__file__).resolve().parents[2] / "compat" / "src"

pytestmark = pytest.mark.skipif(not _OURS.exists(), reason="needs the sources of compat")

_PROGRAM = r"""
import json, pickle, sys
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
told["edited"] = schedd.edit([f"{second}.2"], "JobPrio", "5")["TotalSuccess"]
told["then"] = [(ad["JobStatus"], ad["JobPrio"]) for ad in schedd.query(f"ClusterId == {second}")]
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
told["refused"] = []
nope = h.Submit("executable = /bin/nope\nqueue")
for wrong in (lambda: schedd.submit(nope), lambda: schedd.act(h.JobAction.Hold, "a b"),
              lambda: schedd.export_jobs("1", "a", "b"), lambda: h.Credd(), lambda: h.JobEventLog("nope.log")):
    try:
        wrong()
    except (h.HTCondorException, ValueError) as error:
        told["refused"].append(type(error).__name__)
h.send_command(location, h.DaemonCommand.Reconfig)
schedd.reschedule()
print(json.dumps(told))
"""


def test_a_program_for_htcondor2_runs_unchanged(make_pool: Callable[[str], Pool], tmp_path: Path) -> None:
    pool = make_pool("NUM_CPUS = 4\n")
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
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["slots"] >= 1
    assert told["first"] == [True, 2, 0, "/bin/echo"]
    assert told["ended"] == [[0, 0], [1, 0]]
    assert [(tmp_path / f"out.{proc}").read_text() for proc in (0, 1)] == ["hi alice\n", "hi bob\n"]
    assert told["notes"] == {"0": "for alice", "1": "for bob"}
    assert (tmp_path / "pwd").read_text() == "/usr\n"
    assert told["queued"] == [[0, 1, 2], [1, 1, 2], [2, 1, 2]]
    assert (told["held"], told["edited"]) == (1, 1)
    assert told["then"] == [[1, 0], [5, 0], [1, 5]]
    assert (told["removed"], told["aborted"]) == (3, 3)
    assert told["history"] == [0, 1]
    assert told["epochs"] == [0, 1]
    assert told["pinged"] == [60021, True, 60011]
    assert told["param"][1] is False
    assert str(told["param"][0]) == told["remote"]
    assert told["thing"] == 5
    assert told["users"] == 1
    assert told["priorities"] is True
    assert told["refused"] == [
        "HTCondorException",
        "ValueError",
        "HTCondorException",
        "HTCondorException",
        "HTCondorException",
    ]
