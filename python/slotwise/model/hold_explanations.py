"""What each HoldReasonCode means to the person whose job is held, and what to do about it.

The codes are HTCondor's (manual, "Job ClassAd Attributes"), their names those of
:data:`~slotwise.model.reason_codes.HOLD_NAMES`.
The reason in the job's ad says more than a code can: the file, the limit, the amount.

``python -m slotwise.model.hold_explanations DIRECTORY`` writes the reference page ``hold-codes.md`` there.
"""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Struct

from slotwise.model.reason_codes import HOLD_NAMES, OUT_OF_DISK_SUBCODE, OUT_OF_MEMORY_SUBCODE


class Explanation(Struct, frozen=True):
    """Why jobs are held with a code, what their users do about it, and what the subcode is (empty: always 0).

    ``given``: whether a daemon of Slotwise holds jobs with it; the other codes are HTCondor's alone, and in its ads.
    """

    cause: str
    action: str
    subcode: str = ""
    given: bool = True


_ERRNO = "errno of the failed call"
_HOST = "release it: it may well run elsewhere; tell the administrator of the slot that the reason names"

EXPLANATIONS: dict[int, Explanation] = {
    1: Explanation(
        "someone called `hold`, on the job or by an application",
        "`slotwise release JOB` when it may go on",
        "what `hold -subcode` gave",
    ),
    3: Explanation(
        "an expression of the job itself became true: `periodic_hold`, `on_exit_hold`, `allowed_job_duration`",
        "read the expression in the reason and the job's exit (`slotwise q -af ExitCode ExitBySignal JOB`); "
        "mend the program or the expression, then release",
        "what the job's subcode expression gave",
    ),
    4: Explanation(
        "a credential that the job names in `use_oauth_services` is not stored, or makes no token",
        "store it as the reason says (`htcondor credential add oauth2 FILE --service SERVICE`), then release",
    ),
    5: Explanation(
        "an expression of the job has no value: it reads an attribute that is not there",
        "`slotwise qedit JOB ATTRIBUTE VALUE` what the reason names, then release",
    ),
    6: Explanation(
        "the program could not be started: it is missing, no binary for the machine, or a script without `#!`",
        "check `executable`, its first line, and that it runs by hand; submit anew",
        _ERRNO,
    ),
    7: Explanation(
        "standard output or error could not be opened",
        "check the path of `output` and `error`, and who may write there; then release",
        _ERRNO,
    ),
    8: Explanation("standard input could not be opened", "check `input`; then release", _ERRNO),
    9: Explanation("standard output or error as a stream could not be opened", "as for 7", _ERRNO, given=False),
    10: Explanation("standard input as a stream could not be opened", "as for 8", _ERRNO, given=False),
    11: Explanation("shadow and starter did not understand each other during a transfer", _HOST, given=False),
    12: Explanation(
        "an output file could not be brought back: the job did not write it, the disk at home is full, or its "
        "directory is missing",
        "compare `transfer_output_files` with what the job writes; make room or "
        "the directory (`mkdir -p`); then release, which runs the job again",
        _ERRNO,
    ),
    13: Explanation(
        "an input file could not be sent: it is missing or unreadable, or a URL could not be fetched",
        "check `transfer_input_files`, and URLs with `curl`; then release",
        _ERRNO,
    ),
    14: Explanation(
        "the job's directory at the access point (`initialdir`) cannot be used",
        "make it, or set `initialdir`; then release",
        _ERRNO,
    ),
    15: Explanation("the description says `hold = true`", "release it when it is to run"),
    16: Explanation(
        "the job was submitted with `-spool` and its files are not there yet",
        "wait until `submit -spool` has ended; if it was broken off, remove the job and submit anew",
    ),
    17: Explanation("no shadow for this kind of job", "release", given=False),
    18: Explanation("shadow and starter did not agree on beginning a transfer", _HOST, given=False),
    19: Explanation(
        "a hook that prepares jobs at the execution point refused this one",
        "read the reason; ask the administrator whose hook it is",
        "exit status of the hook",
    ),
    20: Explanation(
        "the job was not started by its `deferral_time` (and `deferral_window`)",
        "submit it with a later time or a wider window",
    ),
    21: Explanation(
        "the policy of the machine wants the job held: WANT_HOLD with PREEMPT",
        "read the reason (memory, disk, time); ask for what the job needs, then release",
        "what WANT_HOLD_SUBCODE gave",
    ),
    22: Explanation(
        "the event log (`log`) cannot be opened, before the job runs",
        "make its directory, or `qedit` UserLog; then release",
        _ERRNO,
    ),
    23: Explanation(
        "the account that the job is to run as does not exist, or may not be used, on the host",
        "ask the administrator: accounts, UID_DOMAIN, SOFT_UID_DOMAIN",
    ),
    24: Explanation("no shadow that can run this job", "release", given=False),
    25: Explanation("the job's calendar (`cron_...`) cannot be read", "mend the commands", given=False),
    26: Explanation(
        "the access point's policy: SYSTEM_PERIODIC_HOLD or SYSTEM_ON_..., a limit of the site",
        "the reason names the rule; change the job accordingly, or ask the administrator",
        "what the rule's subcode expression gave",
    ),
    27: Explanation(
        "an expression of the access point's policy has no value for this job",
        "tell the administrator; `qedit` can give the attribute a value",
    ),
    32: Explanation(
        "the inputs are more than `max_transfer_input_mb` or MAX_TRANSFER_INPUT_MB allows",
        "send less, fetch by URL, or raise `max_transfer_input_mb`; then release",
    ),
    33: Explanation(
        "the outputs are more than `max_transfer_output_mb` or MAX_TRANSFER_OUTPUT_MB allows",
        "bring back less (`transfer_output_files`), or raise `max_transfer_output_mb`; then release",
    ),
    34: Explanation(
        "the job used more than it asked for, and the host enforces that",
        "`slotwise q -af MemoryUsage RequestMemory DiskUsage RequestDisk JOB` shows both; ask for more "
        "(`slotwise qedit JOB RequestMemory 4096`), then release",
        f"{OUT_OF_MEMORY_SUBCODE} memory, {OUT_OF_DISK_SUBCODE} disk",
    ),
    35: Explanation(
        "the container image does not exist, or is none",
        "check `container_image` or `docker_image` by hand (`apptainer pull`, `docker pull`); `qedit` it, then release",
    ),
    36: Explanation(
        "a checkpoint could not be sent to `checkpoint_destination`",
        "the reason has what the plugin said: make the place writable for the job, or `qedit` CheckpointDestination, "
        "then release",
    ),
    43: Explanation("a program that runs before the job failed", "read the reason", given=False),
    44: Explanation("a program that runs after the job failed", "read the reason", given=False),
    45: Explanation(
        "the container did not pass its test on the host: image of another architecture, damaged, or no "
        "`/bin/sh` in it",
        "run the image by hand with `apptainer exec`; then release",
    ),
    46: Explanation(
        "the job was longer on its way than `allowed_job_duration`", "allow more time, or divide the work; submit anew"
    ),
    47: Explanation(
        "the program ran longer than `allowed_execute_duration`", "allow more time, or divide the work; submit anew"
    ),
    48: Explanation(
        "a hook at the access point, SHADOW_PREPARE_JOB, refused this one",
        "read the reason, or ask who runs the access point",
    ),
    49: Explanation("the group that the job names cannot be used", "take out `primary_unix_group`", given=False),
}


def action(code: int) -> str:
    """What to do about a hold with this code; empty where nothing is known of it."""
    found = EXPLANATIONS.get(code)
    return "" if found is None else found.action


_HEAD = """\
# Hold codes

Generated from the table in `slotwise/model/hold_explanations.py` by `python -m slotwise.model.hold_explanations
docs/reference`; do not edit.

A held job stays in the queue and does not run until it is released. `slotwise q -hold` shows code, subcode and reason;
`slotwise analyze JOB` adds what to do; `slotwise q -hold:34` shows the jobs of one code. The numbers are HTCondor's,
and stand in the job's ad as HoldReasonCode, HoldReasonSubCode and HoldReason. What a host or daemon is at fault for
does not hold jobs: they go back to the queue and run elsewhere. [Why was it held?](../users/held.md) goes through the
common cases.

| Code | Name | Cause | What to do | Subcode |
| --- | --- | --- | --- | --- |
"""
_TAIL = """
These are HTCondor's alone: no daemon of Slotwise holds a job with them, but ads of HTCondor may have them.

| Code | Name | Cause |
| --- | --- | --- |
"""


def page() -> str:
    """The reference page."""
    rows, others = [], []
    for code, name in HOLD_NAMES.items():
        found = EXPLANATIONS[code]
        if found.given:
            rows.append(f"| {code} | {name} | {found.cause} | {found.action} | {found.subcode} |")
        else:
            others.append(f"| {code} | {name} | {found.cause} |")
    return _HEAD + "\n".join(rows) + "\n" + _TAIL + "\n".join(others) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) / "hold-codes.md").write_text(page(), encoding="utf-8")
