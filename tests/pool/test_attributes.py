"""The attributes of all ads against those of HTCondor 25.14.1, recorded in ``attributes.json``.

There: a pool with the configuration and the jobs below, and for the ads of daemons whatever they publish of themselves.
What is missing here, and why, is in ``docs/reference/missing-attributes.md``; nothing else may be.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.pool import Pool
from tests.support.waiting import block_until

_TESTS = Path(__file__).parents[1]
RECORDED = {
    kind: frozenset(names.split())
    for kind, names in json.loads((_TESTS / "conformance" / "attributes.json").read_text()).items()
}
PAGE = _TESTS.parent / "docs" / "reference" / "missing-attributes.md"
#: The sections of the page that hold for a kind of ad, besides that for all.
_SECTIONS = {
    "partitionable slot": ("Slots and the startd's own ad", "Slots"),
    "dynamic slot": ("Slots and the startd's own ad", "Slots", "Dynamic slots"),
    "static slot": ("Slots and the startd's own ad", "Slots"),
    "StartD": ("Slots and the startd's own ad", "The startd's own ad"),
    "running job": ("Jobs",),
    "held job": ("Jobs", "Jobs on hold"),
    "idle job": ("Jobs",),
    "finished job": ("Jobs",),
    "Scheduler": ("The schedd's ad",),
    "Submitter": ("Ads of submitters",),
    "Collector": ("The collector's ad",),
    "Negotiator": ("The negotiator's ad",),
    "DaemonMaster": ("The master's ad",),
    "Accounting": ("Ads of accounting",),
}
#: What the host, its benchmarks, or the moment decide.
_ELSEWHERE = re.compile(
    r"totaltime\w+|kflops|mips|hardwareaddress|subnetmask|has_\w+|hasrotationalscratch|microarch|cpu(cachesize|family"
    r"|modelnumber)|hasfiletransferpluginmethods|lastrejmatch\w+|lastnegotiationcycle\w+[12]"
)

CONFIG = r"""
NUM_CPUS = 4
MEMORY = 16000
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = cpus=2,memory=8000,GPUs=2
SLOT_TYPE_1_PARTITIONABLE = True
SLOT_TYPE_2 = cpus=2,memory=4000
NUM_SLOTS_TYPE_2 = 1
MACHINE_RESOURCE_INVENTORY_GPUs = $(LIBEXEC)/condor_gpu_discovery -properties -simulate:4,2
NEGOTIATOR_MATCH_EXPRS = Site, GLIDEIN_Rank
Site = "attic"
GLIDEIN_Rank = 7
Rack = "r7"
GLIDEIN_Site = "UW"
GLIDEIN_ToDie = 1234
STARTD_ATTRS = $(STARTD_ATTRS), Rack, GLIDEIN_Site, GLIDEIN_ToDie
MASTER_ATTRS = Rack
COLLECTOR_ATTRS = Rack
NEGOTIATOR_ATTRS = Rack
SCHEDD_ATTRS = Rack
UPDATE_INTERVAL = 1
STARTER_UPDATE_INTERVAL = 1
STARTER_INITIAL_UPDATE_INTERVAL = 1
"""
_COMMON = """executable = prog.sh
transfer_input_files = in.dat
transfer_output_files = out.dat
should_transfer_files = YES
when_to_transfer_output = ON_EXIT
job_ad_information_attrs = Owner, JobStatus
job_machine_attrs = Rack, Machine
output = out.$(Cluster)
error = err.$(Cluster)
request_memory = 64
request_disk = 1M
log = job.log
"""
_GPU = (
    _COMMON
    + r"""environment = "SITE=$$(GLIDEIN_Site) N=$$(Nothing:none)"
+JOBGLIDEIN_Site = "$$([IfThenElse(isUndefined(TARGET.GLIDEIN_Site), \"Local\", TARGET.GLIDEIN_Site)])"
+JobMem = "$$([Target.Memory * 1])"
+DESIRED_Sites = "UW"
request_gpus = 1
transfer_output_remaps = "out.dat=$(Cluster).dat"
requirements = PartitionableSlot
"""
)
JOBS = {
    "finished": _GPU + "arguments = 0\nqueue\n",
    "running": _GPU + "arguments = 1000\nqueue\n",
    "static": _COMMON + "arguments = 1000\nrequirements = PartitionableSlot =!= true && DynamicSlot =!= true\nqueue\n",
    "held": "executable = prog.sh\narguments = 1\nlog = job.log\nhold = true\nqueue\n",
    "idle": "executable = prog.sh\narguments = 1\nlog = job.log\nrequirements = NoSuch == 3\nqueue\n",
}


def reasons(kind: str) -> frozenset[str]:
    """The attributes, in small letters, that the page says an ad of the kind has not."""
    found, wanted, section = set[str](), ("All ads", *_SECTIONS[kind]), ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("| ") and section in wanted and "Why not" not in line and "---" not in line:
            found.update(name.strip().lower() for name in line.split("|")[1].split(","))
    return frozenset(found)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        made = Pool(Path(directory) / "p", CONFIG)
        (made.root / "prog.sh").write_text("#!/bin/sh\necho made > out.dat\nexec sleep $1\n")
        (made.root / "prog.sh").chmod(0o755)
        (made.root / "in.dat").write_text("input\n")
        made.root.chmod(0o755)
        made.up()
        try:
            for name, text in JOBS.items():
                (made.root / f"{name}.sub").write_text(text)
                made.run("submit", f"{name}.sub")
            made.until("a job has finished", lambda: made.json("history", "-constraint", "JobStatus == 4"))
            made.until("two jobs run", lambda: len(made.json("q", "-constraint", "JobStatus == 2")) == 2)
            yield made
        finally:
            made.destroy()


def ad_of(pool: Pool, kind: str) -> dict[str, Any]:
    """An ad of the kind; an empty one while there is none."""
    slot, job = kind.removesuffix(" slot"), kind.removesuffix(" job")
    if slot != kind:
        # The slot of the job that has finished may be there for a while yet.
        busy = "" if slot == "partitionable" else ' && Activity == "Busy"'
        ads = pool.json("status", "-constraint", f'SlotType == "{slot.capitalize()}"{busy}')
    elif kind == "finished job":
        ads = pool.json("history", "-constraint", "JobStatus == 4")
    elif job != kind:
        which = {"running": "JobStatus == 2 && RequestGPUs == 1", "held": "JobStatus == 5", "idle": "JobStatus == 1"}
        ads = pool.json("q", "-constraint", which[job])
    elif kind == "StartD":
        ads = pool.json("status", "-subsystem", "StartDaemon")
    else:
        ads = pool.json("status", "-subsystem", kind)
        if kind == "Accounting":  # those of groups have their quotas, those of submitters their shares
            return {name: value for ad in ads for name, value in ad.items()}
    return dict(ads[0]) if ads else {}


@pytest.mark.parametrize("kind", RECORDED)
def test_ads_have_the_attributes_of_htcondor_or_the_page_says_why_not(pool: Pool, kind: str) -> None:
    wanted = {name.lower() for name in RECORDED[kind] if not _ELSEWHERE.fullmatch(name.lower())}
    given = wanted & reasons(kind)

    def differs() -> set[str]:
        """What is missing without a reason, or there in spite of one."""
        shown = {name.lower() for name in ad_of(pool, kind)}
        return given ^ (wanted - shown)

    # Usage comes with an update, and counts of updates and cycles once there were some.
    block_until(lambda: not differs(), f"the ad of the {kind} is as recorded", told=differs)


def test_every_reason_is_about_an_attribute_that_htcondor_has() -> None:
    for kind in RECORDED:
        own = reasons(kind)
        assert own, kind
    everything = {name.lower() for names in RECORDED.values() for name in names}
    assert {name for kind in RECORDED for name in reasons(kind)} <= everything
