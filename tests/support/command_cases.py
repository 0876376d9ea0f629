"""A script of HTCondor's commands on a personal pool, and what each prints (conformance/commands.jsonl).

``python3 command_cases.py record`` in an empty directory, with HTCondor's commands in PATH and the knobs of
:data:`CONFIG` in its configuration, prints one JSON object for each invocation: its words, standard output and error,
exit status. :func:`play` runs the same on any pool. Jobs are in states that do not change while they are looked at.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.support.waiting import LIMIT_S, block_until

#: What the script takes for granted of the pool.
CONFIG = """\
NUM_CPUS = 8
MEMORY = 8192
UID_DOMAIN = peer.local
FILESYSTEM_DOMAIN = peer.local
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD
START = True
SUSPEND = False
PREEMPT = False
KILL = False
WANT_SUSPEND = False
WANT_VACATE = False
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
RUNBENCHMARKS = False
JAVA =
MAX_JOBS_PER_OWNER = 1000000
SCRIPT_A = one
SCRIPT_B = $(SCRIPT_A) two
SCRIPT_N = 2 * 60
SCRIPT_LIST = a, b, c
SCHEDD.SCRIPT_A = ours
GROUP_NAMES = group_physics, group_chem
GROUP_QUOTA_group_physics = 2
GROUP_QUOTA_group_chem = 1
"""

_SLEEP = "executable = /bin/sleep\narguments = 100000\n"
_SMALL = "request_memory = 64M\nrequest_disk = 10M\n"
_NEVER = "requirements = TARGET.Nope =?= true\n"
#: Descriptions that are wrong, by what is wrong; those that HTCondor takes queue jobs that never match.
_BAD = {
    "line": "executable = /bin/true\nthis is not a command\nqueue\n",
    "mem": "executable = /bin/true\nrequest_memory = lots of it (\nqueue\n",
    "cpus": "executable = /bin/true\nrequest_cpus = )\nqueue\n",
    "universe": "universe = nowhere\nexecutable = /bin/true\nqueue\n",
    "queue": "executable = /bin/true\nqueue nonsense here\n",
    "input": "executable = /bin/cat\ninput = not-there.txt\nqueue\n",
    "transfer": "executable = /bin/cat\ntransfer_input_files = not-there.txt\nshould_transfer_files = YES\nqueue\n",
    "when": "executable = /bin/cat\nshould_transfer_files = YES\nwhen_to_transfer_output = SOMETIMES\nqueue\n",
    "should": "executable = /bin/cat\nshould_transfer_files = PERHAPS\nqueue\n",
    "args": 'executable = /bin/echo\narguments = "one \'two"\nqueue\n',
    "env": 'executable = /bin/echo\nenvironment = "A=1 B=\'2"\nqueue\n',
    "prio": "executable = /bin/echo\npriority = high\nqueue\n",
    "plus": "executable = /bin/echo\n+Thing = (((\nqueue\n",
    "macro": "executable = /bin/echo\narguments = $(A\nqueue\n",
    "retries": "executable = /bin/echo\nmax_retries = many\nqueue\n",
    "dir": "executable = /bin/echo\ninitialdir = /no/such/directory\nqueue\n",
}
FILES = {
    "idle.sub": f"{_SLEEP}{_NEVER}{_SMALL}log = idle.log\nqueue 3\n",
    "held.sub": f"{_SLEEP}hold = true\n{_SMALL}queue 2\n",
    "run.sub": f"{_SLEEP}{_SMALL}log = run.log\nqueue 2\n",
    "batch.sub": f"{_SLEEP}{_NEVER}batch_name = analysis\npriority = 5\nrequest_memory = 128M\nrequest_disk = 10M\n"
    "accounting_group = group_physics\naccounting_group_user = alice\nqueue 2\n",
    "done.sub": "executable = /bin/sh\narguments = \"-c 'sleep $(s); exit $(Process)'\"\nlog = done.log\nhold = true\n"
    f"{_SMALL}queue s in (0 2)\n",
    "gone.sub": f"{_SLEEP}requirements = false\nlog = gone.log\nqueue\n",
    "two.sub": f"{_SLEEP}requirements = false\nqueue 2\narguments = 5\nqueue 1\n",
    "noqueue.sub": _SLEEP,
    "noexe.sub": "executable = ./not-there\nqueue\n",
    "noexecutable.sub": "arguments = 1\nqueue\n",
    "badexpr.sub": "executable = /bin/true\nrequirements = ((1\nqueue\n",
    **{f"bad{what}.sub": f"requirements = false\n{text}" for what, text in _BAD.items()},
    "unused.sub": _SLEEP + "requirements = false\nmystery = 5\nqueue\n",
    "matching.sub": "executable = /bin/echo\narguments = $(name)\nqueue name in (ann bob eve)\n",
    "from.sub": "executable = /bin/echo\narguments = $(a) $(b)\nqueue a,b from (\n 1, 2\n 3, 4\n)\n",
    "dump.sub": "executable = /bin/echo\narguments = hello $(Process)\nrequest_memory = 100M\nrequest_disk = 5M\n"
    '+Project = "x"\noutput = o.$(Process)\nqueue 2\n',
    "plain.sub": _SLEEP + "requirements = false\nqueue\n",
    "empty.log": "",
    "text.txt": "not a log\n",
    "table.cpf": "SELECT\n  ClusterId AS CLUSTER WIDTH 8\n  ProcId AS PROC\n  Owner AS WHO WIDTH -10\n"
    "  JobStatus AS S PRINTAS JOB_STATUS\nWHERE ProcId == 0\nSUMMARY NONE\n",
    "bad.cpf": "SELEKT\n Owner\n",
}


#: Commands that change nothing.
_QUESTIONS = frozenset((
    "version", "q", "status", "history", "userprio", "config_val", "wait", "ping", "userlog", "check_userlogs", "tail",
    "fetchlog", "findhost", "who", "top", "qusers", "transform_ads",
))  # fmt: skip
#: Options of theirs that change something.
_EDITS = ("-set", "-reset", "-delete", "-add", "-enable", "-disable", "-remove", "-edit")
#: Words with which other commands are refused, or only say something; prio passes over what it does not know.
_REFUSED = frozenset(("-zzz", "-help", "nosuchhost"))


@dataclass
class Step:
    """One invocation, or (``until``) one that is repeated until it prints that, and is not recorded."""

    words: list[str]
    until: str | None = None
    stdin: str = ""

    @property
    def changes_nothing(self) -> bool:
        """Whether it may run beside others like it."""
        command = self.words[0].removeprefix("condor_")
        edits = command in ("userprio", "qusers") and any(word.startswith(_EDITS) for word in self.words)
        refused = command != "prio" and not _REFUSED.isdisjoint(self.words)
        return (command in _QUESTIONS or refused) and not edits


@dataclass
class Answer:
    """What an invocation did."""

    words: list[str]
    out: str
    err: str
    status: int
    stdin: str = field(default="")


def steps(script: str = "") -> Iterator[Step]:
    """The steps of a script; of this one, when none is given."""
    for line in (script or _SCRIPT).strip().splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("until "):
            want, _, rest = line.removeprefix("until ").partition(" <- ")
            yield Step(_split(rest), until=want.replace("\\n", "\n"))
            continue
        words, _, stdin = line.partition(" <<< ")
        yield Step(_split(words), stdin=stdin.replace("\\n", "\n"))


def _split(line: str) -> list[str]:
    import shlex

    words = shlex.split(line)
    return words if words[0] == "htcondor" else [f"condor_{words[0]}", *words[1:]]


_SCRIPT = r"""
# ------------------------------------------------------------------ no jobs yet
version
version -help
version nonsense
q
q -nobatch
q -totals
q -run
q -hold
q -af ClusterId
q -long
q -json
q -xml
q 1
q 1.0
q nobody
q -allusers
history
history -af ClusterId
history -limit 1
rm 1
rm 1.0
hold 1
release 1
# ------------------------------------------------------------------ configuration
config_val
config_val SCRIPT_A
config_val SCRIPT_B
config_val SCRIPT_N
config_val script_b
config_val SCRIPT_A SCRIPT_B SCRIPT_LIST
config_val NOT_SET_AT_ALL
config_val SCRIPT_A NOT_SET_AT_ALL
config_val -raw SCRIPT_B
config_val -default NEGOTIATOR_INTERVAL
config_val -default SCRIPT_A
config_val -raw LOG
config_val -default LOG
config_val NEGOTIATOR_INTERVAL
config_val -subsystem SCHEDD SCRIPT_A
config_val -subsystem STARTD SCRIPT_A
config_val -verbose SCRIPT_A
config_val -v SCRIPT_B
config_val -v NEGOTIATOR_INTERVAL
config_val -v NOT_SET_AT_ALL
config_val -v -subsystem SCHEDD SCRIPT_A
config_val -v -default SCRIPT_A
config_val -dump SCRIPT_
config_val -dump -expand SCRIPT_
config_val -dump -v SCRIPT_B
config_val -dump -default NEGOTIATOR_INTERVAL
config_val -dump NEGOTIATOR_INTERVAL
config_val -dump zzzzz
config_val -dump SCRIPT_A SCRIPT_N
config_val -dump "^GROUP_QUOTA"
config_val -macro "$(SCRIPT_B)/x"
config_val -macro "$INT(SCRIPT_N)" "$(NOPE:alt)"
config_val -v -macro "$(SCRIPT_A)"
config_val -macro plain
config_val -evaluate SCRIPT_A
config_val -schedd SCRIPT_A
config_val -startd SCRIPT_A
config_val -negotiator NEGOTIATOR_INTERVAL
config_val -collector SCRIPT_B
config_val -master SCRIPT_A
config_val -schedd NOT_SET_AT_ALL
config_val -schedd -evaluate SCRIPT_N
config_val -schedd -evaluate MAX_JOBS_PER_OWNER
config_val -schedd -v MAX_JOBS_PER_OWNER
config_val -pool 127.0.0.1 SCRIPT_A
config_val -schedd use ROLE:Execute
config_val use
config_val use ROLE
config_val use POLICY
config_val use SECURITY
config_val use ROLE:Execute
config_val use ROLE:Submit
config_val use POLICY:Always_Run_Jobs
config_val use role:execute
config_val use NOPE
config_val use ROLE:Nope
config_val use FEATURE:PartitionableSlot
config_val -check-if "version > 8.1"
config_val -check-if "defined SCRIPT_A"
config_val -check-if "nonsense nonsense"
config_val -nosuchoption
config_val -name
config_val -unused -dump SCRIPT_A
config_val -used -dump SCRIPT_A
config_val -mixedcase SCRIPT_A
config_val -help
config_val -version
# ------------------------------------------------------------------ submissions
submit idle.sub
submit held.sub
submit run.sub
until 3.0 2\n3.1 2\n <- q 3 -af:j JobStatus
submit -terse batch.sub
submit done.sub
submit gone.sub
rm 6
until All jobs in cluster 5 have been released\n <- release 5
until 6.0 3\n <- history 6 -af:j JobStatus
until 5.0 0 4\n5.1 1 4\n <- history -forwards 5 -af:j ExitCode JobStatus
until 1\n2\n <- status -constraint "DynamicSlot =?= true" -af DSlotId
until 1\n1\n <- status -constraint "State == \"Claimed\" && Activity == \"Busy\"" -af SlotID
reschedule
until 2\n <- status -submitters -constraint "RunningJobs > 0" -af RunningJobs
until 1\n <- status -schedd -af TotalRemovedJobs==0&&TotalRunningJobs==2&&TotalIdleJobs==5&&TotalHeldJobs==2?1:0
# ------------------------------------------------------------------ q
q
q -nobatch
q -batch
q -totals
q -run
q -run -nobatch
q -run -batch
q -idle
q -hold
q -held
q -hold -nobatch
q -hold-codes
q -io
q -grid
q -dag
q -dag -nobatch
q -cputime
q -cputime -nobatch
q -currentrun
q -currentrun -nobatch
q -cumulative-time
q -factory
q -jobset
q -autocluster
q -autocluster -af JobCount
q -group-by Owner
q -wide
q -wide:60
q -nobatch -wide
q -nobatch -wide:50
q 1
q 1.0
q 1.0 2.1
q 1 2
q 99
q 99.0
q 1.99
q -nobatch 1
q -nobatch 3.1
q -totals 1
q -hold 1
q -run 3
q -run 1
q -idle 1
q nobody
q -nobatch nobody
q -allusers
q -allusers -nobatch
q -allusers -totals
q -submitter nobody
q -constraint "JobStatus == 1"
q -const "JobStatus == 5" -nobatch
q -constraint "ProcId == 1" -af ClusterId
q -constraint "((("
q -constraint "true" -totals
q -constraint "false"
q -af ClusterId ProcId JobStatus
q -af:j JobStatus
q -af:h ClusterId JobStatus
q -af:jh JobStatus JobPrio
q -af:l ClusterId ProcId
q -af:lj JobStatus
q -af:lh JobStatus
q -af:r Requirements
q -af:V Cmd JobStatus
q -af:, ClusterId ProcId
q -af:t ClusterId ProcId
q -af:n ClusterId ProcId
q -af:ng ClusterId ProcId
q -af:lrng Cmd JobPrio
q -af:jT RequestMemory
q -af:z ClusterId
q -af NoSuchAttribute
q -af "1 + 2" "1/3.0" "strcat(Owner, 1)" 1.5
q -af "(((" 
q -af
q 1.0 -af Cmd Args
q 1.0 -autoformat JobPrio
q -format "%d." ClusterId -format "%d\n" ProcId
q -format "%s " Cmd -format "%v\n" JobPrio
q -format "%5.1f|" JobPrio -format "%-8s|\n" NoSuch
q -format "%d\n"
q -aaf JobPrio
q -nobatch -aaf JobPrio JobUniverse
q -limit 1 -af ClusterId
q -limit 2 -nobatch
q -limit x
q -print-format table.cpf
q -print-format not-there.cpf
q -print-format bad.cpf
q 1.0 -long -attributes ClusterId,ProcId,JobStatus
q 1.0 -l -attributes Cmd
q 1.0 -json -attributes ClusterId,JobPrio
q 1.0 -xml -attributes ClusterId,JobPrio
q 1 -jsonl -attributes ProcId
q -attributes ClusterId -long 2
q -json 99
q -long 99
q -xml 99
q -userlog idle.log
q -userlog run.log
q -userlog run.log -nobatch
q -userlog gone.log
q -userlog done.log
q -userlog empty.log
q -userlog not-there.log
q -userlog idle.log -af ClusterId ProcId JobStatus
q -userlog idle.log -totals
q -jobads not-there.ads
q -name nosuchschedd
q -name
q -pool 127.0.0.1:1
q -global -af ClusterId
q -better-analyze 1.0
q -better-analyze 2.0
q -better-analyze 3.0
q -better-analyze 99.0
q -better-analyze:summary 1
q -analyze 1.0
q -analyze 2.0
q -better-analyze:priority 1.0
q -better-analyze -verbose 1.0
q -reverse-analyze 1.0
q -unmatchable
q -nosuchoption
q -help
q -help state
q -version
q 1 nobody
q -const "JobPrio == 5" -af JobBatchName AccountingGroup
q -stream-results -af ClusterId
q -expert -nobatch 2
q -tot -const "JobStatus==1"
# ------------------------------------------------------------------ status
status
status -compact
status -nocompact
status -wide
status -total
status -totals -compact
status -avail
status -claimed
status -run
status -run -compact
status -state
status -server
status -startd
status -startd -total
status -schedd
status -schedd -run
status -schedd -total
status -schedd -data
status -submitters
status -submitters -total
status -master
status -collector
status -negotiator
status -any
status -any -total
status -defrag
status -grid
status -generic
status -storage
status -license
status -ckptsrvr
status -accounting
status -gpus
status -gpus -compact
status -java
status -vm
status -cod
status -offline
status -absent
status -broken
status -startd -broken
status -healthy
status -startd -healthy
status -data
status -slots
status -long -attributes SlotID,Cpus
status -json -attributes SlotID,Cpus
status -xml -attributes SlotID
status -jsonl -attributes SlotID
status -af SlotID State Activity
status -af:h SlotID State
status -af:lh SlotID State
status -af:j SlotID
status -af:V State
status -af:r Cpus
status -af NoSuch
status -format "%d\n" SlotID
status -format "%s " State -format "%s\n" Activity
status -constraint "State == \"Claimed\"" -af SlotID
status -constraint "SlotID == 99"
status -constraint "((("
status -const "DynamicSlot =?= true" -total
status -limit 1 -af SlotID
status -sort SlotID -af SlotID
status -sort -SlotID -af SlotID
status nosuchhost
status -name nosuchhost
status -schedd nosuchschedd
status -schedd -af TotalRunningJobs TotalIdleJobs TotalHeldJobs
status -submitters -af Name RunningJobs IdleJobs HeldJobs
status -negotiator -af MyType
status -master -af MyType
status -any -af MyType
status -subsystem schedd
status -subsystem nosuch
status -aaf SlotID
status -print-format not-there.cpf
status -pool 127.0.0.1:1
status -nosuchoption
status -help
status -version
status -state -total
status -run -total
status -server -total
status -claimed -total
status -absent -total
status -direct nosuchhost
status -statistics
status -ads not-there.ads
# ------------------------------------------------------------------ history
history
history -nobatch
history -wide
history 5
history 5.0
history 5.9
history 99
history nobody
history -af ClusterId ProcId
history -af:j JobStatus ExitCode
history -af:h ClusterId JobStatus
history -af:lh ClusterId JobStatus
history -af NoSuch
history -limit 1
history -limit 1 -af ClusterId
history -match 2 -af ClusterId
history -limit x
history -forwards -af ClusterId ProcId
history -backwards -af ClusterId ProcId
history -scanlimit 1 -af ClusterId
history -since 5.1 -af ClusterId ProcId
history -since "ClusterId == 5" -af ClusterId
history -completedsince 0 -af ClusterId
history -constraint "ExitCode == 1"
history -const "ExitCode == 1" -af ClusterId ProcId
history -const "((("
history 5.0 -long -attributes ClusterId,ProcId
history 5.0 -json -attributes ClusterId,ProcId
history 5.0 -xml -attributes ClusterId
history 5 -jsonl -attributes ProcId
history -format "%d." ClusterId -format "%d\n" ProcId
history -print-format table.cpf
history -aaf ExitCode
history -file not-there
history -userlog done.log -af ClusterId
history -name nosuchschedd
history -nosuchoption
history -help
history -version
history -startd -af ClusterId -limit 1
history -epochs -af ClusterId ProcId
history -epochs 5.0 -af ClusterId ProcId
# ------------------------------------------------------------------ userprio
userprio
userprio -all
userprio -allusers
userprio -most
userprio -priority
userprio -usage
userprio -quotas
userprio -quotas -allusers
userprio -surplus
userprio -flat
userprio -hier
userprio -grouporder
userprio -grouprollup
userprio -groupid
userprio -sortkey
userprio -order
userprio -activefrom 1 1 2020
userprio -activefrom 1
userprio -allusers -flat
userprio -af Name
userprio -af Name PriorityFactor
userprio -allusers -af:h Name PriorityFactor
userprio -af NoSuch
userprio -long -attributes Name,PriorityFactor
userprio -getreslist nobody@peer.local
userprio -setprio nobody
userprio -setprio nobody 5
userprio -setprio bob@peer.local 50
userprio -setfactor bob@peer.local 10
userprio -setfactor bob@peer.local 0.5
userprio -setfactor bob@peer.local x
userprio -setaccum bob@peer.local 3600
userprio -setbegin bob@peer.local 1000000000
userprio -setlast bob@peer.local 1000000000
userprio -setceiling bob@peer.local 5
userprio -setfloor bob@peer.local 1
userprio -allusers -priority
userprio -resetusage bob@peer.local
userprio -delete bob@peer.local
userprio -delete nobody@peer.local
userprio -resetusage nobody@peer.local
userprio -resetall
userprio -nosuchoption
userprio -help
userprio -version
# ------------------------------------------------------------------ wait, logs, ping
wait
wait done.log
wait done.log 5
wait done.log 5.0
wait done.log 5.9 -wait 1
wait gone.log
wait gone.log 6.0
wait -status done.log
wait -status gone.log
wait -num 1 done.log
wait -wait 1 idle.log
wait -wait 1 idle.log 1.0
wait -wait 1 -status idle.log
wait -wait 1 empty.log
wait not-there.log
wait done.log x
wait -wait x done.log
wait -num x done.log
wait -nosuch done.log
wait -help
wait -version
ping
ping READ
ping WRITE
ping -table READ WRITE
ping -quiet READ
ping -type schedd READ
ping -type nosuch READ
ping -name nosuch READ
ping ALL
ping NOSUCH
ping -nosuch
ping -help
# ------------------------------------------------------------------ submit
submit not-there.sub
submit -dump - dump.sub
submit -dry-run - dump.sub
submit -dry-run out.ads dump.sub
submit -dump out.ads dump.sub
submit -dry-run /no/such/place/x dump.sub
submit noexe.sub
submit noexecutable.sub
submit noqueue.sub
submit badline.sub
submit badexpr.sub
submit badmem.sub
submit badcpus.sub
submit baduniverse.sub
submit badqueue.sub
submit badinput.sub
submit badtransfer.sub
submit badwhen.sub
submit badshould.sub
submit badargs.sub
submit badenv.sub
submit badprio.sub
submit badplus.sub
submit badmacro.sub
submit badretries.sub
submit baddir.sub
submit -terse noexe.sub
submit -nosuchoption plain.sub
submit -name nosuchschedd plain.sub
submit -queue 2 -terse plain.sub
submit -maxjobs 1 idle.sub
submit plain.sub -append "priority = 3"
submit -terse plain.sub -a "batch_name = named"
submit -batch-name told plain.sub
submit -terse matching.sub -append "requirements = false"
submit -terse from.sub -append "requirements = false"
submit unused.sub
submit arguments=7 plain.sub
submit -help
submit -version
submit - <<< executable = /bin/true\nrequirements = false\nqueue 1\n
submit -terse - <<< executable = /bin/true\nrequirements = false\nqueue 1\n
submit -terse <<< executable = /bin/true\nrequirements = false\nqueue 1\n
submit empty.log
submit text.txt
submit -verbose noexe.sub
submit -dump
q -af:j JobPrio JobBatchName
# ------------------------------------------------------------------ prio, qedit
prio
prio 1
prio -p 5 1.0
prio -p 7 1
prio -p x 1.0
prio +2 1.1
prio -3 1.1
prio -p 4 99.0
prio -p 4 99
prio -p 1 nobody
prio -p 1 -a
prio -nosuch 1
prio -p 3 -const "ClusterId == 2"
q 1 -af:j JobPrio
qedit
qedit 1.0
qedit 1.0 Thing
qedit 1.0 Thing 5
qedit 1 Thing 6
qedit 1.0 Thing '"text"'
qedit 1.0 Thing "((("
qedit 1.0 A 1 B 2
qedit 1.0 A=3
qedit 99.0 A 1
qedit 99 A 1
qedit nobody A 1
qedit -const "ClusterId == 2" A 1
qedit -constraint "false" A 1
qedit 1.0 ClusterId 7
qedit -dry-run 1.0 A 9
qedit -nosuch 1.0 A 1
qedit 1.0 "bad name" 1
qedit 1.0 2.0 A 5
q 1.0 -af Thing A B
# ------------------------------------------------------------------ hold, release
hold
hold 1.0
hold 1.0
hold 1
hold 1.0 1.1
hold 99.0
hold 99
hold 99.0 1.0
hold 1.9
hold nobody
hold 1.x
hold abc.def
hold -constraint "ClusterId == 4"
hold -constraint "ClusterId == 4" -reason "a reason"
hold -constraint "((("
hold -constraint "false"
hold -const "ProcId == 0" 4.0
hold -nosuch 1
hold 4 -reason
hold 4.0 -subcode 7 -reason "because of this"
hold -subcode x 4.0
hold -help
hold -version
hold -name nosuchschedd 1.0
hold -totals 4
hold -long 4.0
hold -all -totals
q -af:j JobStatus HoldReasonCode HoldReasonSubCode
q -hold 4
q -hold-codes
release
release 1.0
release 1.0
release 1
release 99.0
release 99
release 1.1 1.2 99.0
release nobody
release -constraint "ClusterId == 4"
release -constraint "ClusterId == 4"
release 4.0 -reason "why not"
release -totals 4
release -long 4.0
release -nosuch 4
release -constraint "false"
release 2.0
release -held 2
until 1\n1\n1\n <- q 1 -af JobStatus
suspend
suspend 1.0
suspend 99.0
suspend 1
suspend nobody
suspend -constraint "ClusterId == 1"
continue
continue 1.0
continue 99.0
continue 1
vacate_job
vacate_job 1.0
vacate_job 99.0
vacate_job 1
vacate_job -fast 1.0
vacate_job -nosuch 1
# ------------------------------------------------------------------ rm
rm
rm 99
rm 99.0
rm 1.9
rm nobody
rm -nosuch 1
rm -forcex 1.0
rm -forcex 1
rm -constraint "((("
rm -constraint "false"
rm 1.0
rm 1.0
rm 1.1 1.2
rm 1
rm -totals 2
rm -long 4.0
rm 4.1 -reason "not needed"
rm -constraint "ProcId == 0 && JobPrio == 3"
rm 4 99.0
rm -help
rm -version
rm -name nosuchschedd 1.0
rm 1.0x
rm x.y
rm -1
rm 3.0
rm -all
until  <- q -af ClusterId
rm -all
rm -all -totals
q
q -nobatch
history 1 -af:j JobStatus
history 4.1 -af RemoveReason
tail
tail 99.0
tail -help
transfer_data
transfer_data 99
reschedule
reschedule -help
drain
drain nosuchhost
drain -help
vacate -nosuch
ssh_to_job
ssh_to_job 99.0
advertise
"""


def run(step: Step, env: dict[str, str], cwd: Path) -> Answer:
    """Run the command of a step, which is in PATH of ``env``, in a process."""
    try:
        done = subprocess.run(
            step.words,
            input=step.stdin,
            env=env,
            cwd=cwd,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired as late:
        return Answer(step.words, (late.stdout or b"").decode(), "(waits for ever)", 124, step.stdin)
    except FileNotFoundError:
        return Answer(step.words, "", "(no such command)", 127, step.stdin)
    return Answer(step.words, done.stdout, done.stderr, done.returncode, step.stdin)


def play(
    directory: Path,
    env: dict[str, str],
    at_once: int = 1,
    script: str = "",
    files: Mapping[str, str] = FILES,
    run_it: Callable[[Step], Answer] | None = None,
) -> Iterator[Answer]:
    """Run a script, this one when none is given, with the commands in PATH of ``env``; yields what each prints.

    :param at_once: how many of those that change nothing run beside each other.
    :param run_it: runs one, in place of a process.
    :raises AssertionError: when the jobs do not get into the states that the script looks at.
    """
    for name, text in files.items():
        (directory / name).write_text(text)

    call = run_it or partial(run, env=env, cwd=directory)
    together: list[Step] = []
    with ThreadPoolExecutor(at_once) as threads:
        for step in steps(script):
            if step.until is None and step.changes_nothing:
                together.append(step)
                continue
            yield from threads.map(call, together)
            together.clear()
            if step.until is None:
                yield call(step)
            else:
                _wait(step, call)
        yield from threads.map(call, together)


def _wait(step: Step, call: Callable[[Step], Answer]) -> None:
    what = f"{step.words} prints {step.until!r}"
    block_until(lambda: call(step).out == step.until, what, limit_s=3 * LIMIT_S, told=lambda: call(step))


#: What differs from pool to pool and moment to moment, in the order in which it is masked.
_MASKS = [
    (re.compile(pattern), mask)
    for pattern, mask in (
        # HTCondor 25.12 and newer look at RequestDisk themselves when they know it; ours always do.
        (r'\(versionGE\(split\(TARGET\.CondorVersion\)\[1\],"[^"]*"\) \|\| (\(TARGET\.Disk >= RequestDisk\))\)', r"\1"),
        (r'\bIwd ?= ?"[^"]*"', 'Iwd = "DIR"'),
        (r"\$CondorVersion: [^$]*\$", "VERSION"),
        (r"\$CondorPlatform: [^$]*\$", "PLATFORM"),
        (r"<(?:unix|\d+\.\d+\.\d+\.\d+|127-0)[^>\n@]*(?:>|\.\.\.)", "ADDRESS"),
        (r"\d\d/\d\d/\d\d(?:\d\d)? \d\d:\d\d(?::\d\d)?", "TIME"),
        (r"\d\d\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d", "TIME"),
        (r"\b\d{1,2}/\d{1,2} +\d\d:\d\d(?::\d\d)?", "TIME"),
        (r"(?m)\b\d{1,2}/\d{0,2}$", "TIME"),  # cut by -wide
        (r"\b25\.14\.\d+(?:\.PackageID:)?", "RELEASE"),
        (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b", "TIME"),
        (r"\d+\+\d\d:\d\d(?::-?\d+)?", "SPAN"),
        (r"\b\d+\.\d{2,}\b", "REAL"),
        (r"(?m)^To monitor your job.*$", ""),  # names a command that is not there
        (r"(?m)(^|[:\s])(?:\.|/\S*)/", r"\1DIR/"),
        (r", line \d+", ", line N"),
        (r"<HOST>", "ADDRESS"),
        (r"\b\d{7,}\b", "BIG"),
        (r" command using \([^)]*\) succeeded as \S+", " command succeeded"),
        (r"\b(nosuch\w*|extra|nonsense)\.peer\.local", r"\1"),  # HTCondor adds DEFAULT_DOMAIN_NAME
        (r"\bx64/\w+", "SYSTEM"),
        (r"-{3,}", "---"),
        (r"[ \t]+", " "),
        (r"(?m)^ | $", ""),
        (r"(?mis)^\s*us(?:e|age):.*", "USAGE"),
        (
            r"(REAL|ByQuota|users: \d+|@peer\.local) \d+ -?REAL\b",
            r"\1 N REAL",
        ),  # what is in use, as the last cycle saw it
    )
]


def normalised(text: str, names: dict[str, str]) -> str:
    """The text without what differs between pools: times, addresses, widths, and ``names`` (each with its mask)."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text.strip("\n")


def record(script: str = "", files: Mapping[str, str] = FILES) -> None:
    """Print what the commands in PATH, which are HTCondor's, answer."""
    for answer in play(Path.cwd(), dict(os.environ), script=script, files=files):
        row = {"words": answer.words, "status": answer.status, "out": answer.out, "err": answer.err}
        if answer.stdin:
            row["stdin"] = answer.stdin
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    record()
