"""A script of HTCondor's command ``htcondor`` on a personal pool, and what it prints (conformance/verb-noun.jsonl).

``python3 -m tests.support.verb_noun_cases`` in an empty directory records it, as :mod:`tests.support.command_cases`
does for the other commands, with the knobs there.
"""

from __future__ import annotations

from tests.support import command_cases

_JOB = "executable = /bin/sleep\narguments = 100000\nrequest_memory = 64M\nrequest_disk = 10M\n"
FILES = {
    "two.sub": f"{_JOB}queue 2\n",
    "run.sub": f"{_JOB}log = run.log\nqueue\n",
    "never.sub": f"{_JOB}requirements = false\n",
    "held.sub": f"{_JOB}hold = true\nqueue 1\n",
    "done.sub": "executable = /bin/sh\narguments = \"-c 'echo out; echo err >&2'\"\nlog = done.log\noutput = done.out\n"
    "error = done.err\nrequest_memory = 64M\nrequest_disk = 10M\nqueue\n",
    "bad.sub": "executable = /bin/true\nrequirements = ((1\nqueue\n",
    "set.txt": "name = js\niterator = table a {\n 1\n}\njob {\n executable = /bin/true\n queue\n}\n",
}
SCRIPT = r"""
htcondor
htcondor nonsense
htcondor job
htcondor job nonsense
htcondor jobset nonsense
htcondor --help
htcondor job --help
htcondor job status --help
htcondor job submit
htcondor job submit not-there.sub
htcondor job submit two.sub
htcondor job submit run.sub --resource slurm
htcondor job submit run.sub --annex-name a
htcondor job submit run.sub --nonsense
htcondor job status
htcondor job status 1
htcondor job status 1 --skip-history
htcondor job status nonsense
htcondor job status 1 2
htcondor job out 1
htcondor job log 1 --skip-history
htcondor job resources 1
htcondor job template
htcondor job template nonsense
htcondor jobset list
htcondor jobset list --allusers
htcondor jobset status js
htcondor jobset status js --owner nobody
htcondor jobset remove js
htcondor jobset submit set.txt
htcondor jobset submit
htcondor eventlog
htcondor eventlog read
htcondor eventlog read not-there.log
htcondor eventlog read run.log -groupby nonsense
htcondor eventlog follow not-there.log
htcondor credential list
htcondor credential nonsense
htcondor dag
htcondor dag status 1
htcondor annex
htcondor ocu query
until 1\n <- status -schedd -af 1
until 1\n <- status -collector -af 1
until 1\n <- status -negotiator -af 1
until true\n <- status -af PartitionableSlot
htcondor ap status
htcondor ap status nosuchhost
htcondor ap claims
htcondor ap claims --nonsense
htcondor cm status
htcondor -v cm status
htcondor -q cm status
htcondor --quiet cm status
htcondor ep status nosuchhost
htcondor ep status
htcondor ep nonsense
htcondor server status
htcondor server nonsense
htcondor job submit run.sub
htcondor job submit done.sub
htcondor job submit held.sub
htcondor -q job submit never.sub
until 1.0 2\n <- q 1 -af:j JobStatus
until 2.0 4\n <- history 2 -af:j JobStatus
htcondor job status 1
htcondor job status 1.0
htcondor job status 1.1
htcondor job resources 1
htcondor job resources 3
htcondor ap claims
htcondor job status 2
htcondor job status 2 --skip-history
htcondor -q job status 2
htcondor job out 2
htcondor job err 2.0
htcondor job out 3
htcondor job status 3
htcondor job resources 2
htcondor job status 4
hold 1
until 1.0 5\n <- q 1 -af:j JobStatus
htcondor job status 1
rm 4
htcondor job status 4
htcondor job submit bad.sub
htcondor jobset remove js --owner nobody
"""


if __name__ == "__main__":
    command_cases.record(SCRIPT, FILES)
