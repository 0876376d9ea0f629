# ruff: noqa: E501
"""Every configuration example of the manual's chapters on policy loads, passes the check, and means what the text says.

A case is the text of one example (with the names it takes for granted), and what its knobs give: an expanded text, or
the value of an expression for a machine and a job. Examples whose printed text is broken get an error at the place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config, check, load

#: Macros that the chapters define once, for all examples after them (with the parenthesis that the print misses).
MACROS = """
MINUTE          = 60
HOUR            = (60 * $(MINUTE))
StateTimer      = (time() - EnteredCurrentState)
ActivityTimer   = (time() - EnteredCurrentActivity)
ActivationTimer = (time() - JobStart)
NonCondorLoadAvg        = (LoadAvg - CondorLoadAvg)
BackgroundLoad          = 0.3
HighLoad                = 0.5
StartIdleTime           = 15 * $(MINUTE)
ContinueIdleTime        = 5 * $(MINUTE)
MaxSuspendTime          = 10 * $(MINUTE)
MaxVacateTime           = 10 * $(MINUTE)
KeyboardBusy            = KeyboardIdle < $(MINUTE)
ConsoleBusy             = (ConsoleIdle  < $(MINUTE))
CPUIdle                = $(NonCondorLoadAvg) <= $(BackgroundLoad)
CPUBusy                = $(NonCondorLoadAvg) >= $(HighLoad)
KeyboardNotBusy         = ($(KeyboardBusy) == False)
MachineBusy             = ($(CPUBusy) || $(KeyboardBusy))
LastCkpt        = (time() - LastPeriodicCheckpoint)
JustCpu = ($(CPUBusy) && ($(KeyboardBusy) == False))
SmallJob = (TARGET.ImageSize < (15 * 1024))
IsVanilla = (TARGET.JobUniverse == 5)
IsPVM = (TARGET.JobUniverse == 4)
"""
NOW = 1_000_000
IDLE = {"KeyboardIdle": 3600, "ConsoleIdle": 3600, "LoadAvg": 0.1, "CondorLoadAvg": 0.0, "State": "Unclaimed"}
BUSY = IDLE | {"KeyboardIdle": 5, "LoadAvg": 2.0}


@dataclass(frozen=True)
class Example:
    """``texts``: knob to expanded text. ``gives``: (knob, machine, job, value)."""

    name: str
    text: str
    texts: dict[str, str | None] = field(default_factory=dict)
    gives: list[tuple[str, dict[str, Any], dict[str, Any], Any]] = field(default_factory=list)
    macros: bool = True


def owner(name: str) -> dict[str, Any]:
    return {"Owner": name}


EXAMPLES = [
    Example("always run", "START = True\nKILL = False\n", {"START": "True", "KILL": "False"}),
    Example(
        "rank prefers a group",
        'RANK = Owner == "coltrane" || Owner == "tyner" \\\n    || Owner == "garrison" || Owner == "jones"\n',
        gives=[("RANK", {}, owner("tyner"), True), ("RANK", {}, owner("miles"), False)],
    ),
    Example(
        "rank prefers the owner of the machine",
        'RANK = (Owner == "coltrane") + (Owner == "tyner") \\\n    + ((Owner == "garrison") * 10) + (Owner == "jones")\n',
        gives=[("RANK", {}, owner("jones"), 1), ("RANK", {}, owner("garrison"), 10), ("RANK", {}, owner("miles"), 0)],
    ),
    Example("rank by size", "RANK = ImageSize\n", gives=[("RANK", {}, {"ImageSize": 77}, 77)]),
    Example(
        "start for one user only",
        'START = KeyboardIdle > 15 * $(MINUTE) && Owner == "coltrane"\n',
        gives=[("START", IDLE, owner("coltrane"), True), ("START", IDLE, owner("tyner"), False)],
    ),
    Example(
        "start for one user always",
        'START = KeyboardIdle > 15 * $(MINUTE) || Owner == "coltrane"\n',
        gives=[("START", BUSY, owner("coltrane"), True), ("START", BUSY, owner("tyner"), False)],
    ),
    Example(
        "benchmarks every four hours",
        "RunBenchmarks : (time() - LastBenchmark) >= (4 * $(HOUR))\n",
        gives=[
            ("RunBenchmarks", {"LastBenchmark": NOW - 20_000}, {}, True),
            ("RunBenchmarks", {"LastBenchmark": NOW}, {}, False),
        ],
    ),
    Example(
        "suspend except for vanilla jobs",
        "WANT_SUSPEND = True\nWANT_VACATE = $(ActivationTimer) > 10 * $(MINUTE)\nSUSPEND = $(KeyboardBusy) || $(CPUBusy)\n"
        "WANT_SUSPEND_VANILLA = False\nWANT_VACATE_VANILLA = False\nSUSPEND_VANILLA = $(KeyboardBusy) || $(CPUBusy)\n",
        gives=[("SUSPEND", BUSY, {}, True), ("SUSPEND", IDLE, {}, False), ("SUSPEND_VANILLA", BUSY, {}, True)],
    ),
    Example(
        "default policy",
        "WANT_SUSPEND = False\nWANT_VACATE = False\nSTART = True\nSUSPEND = False\nCONTINUE = True\nPREEMPT = False\n"
        "# Kill jobs that take too long leaving gracefully.\nMachineMaxVacateTime = 10 * $(MINUTE)\nKILL = False\n",
        {"START": "True", "PREEMPT": "False", "MachineMaxVacateTime": "600"},
    ),
    Example(
        "test job",
        "START = KeyboardIdle > $(StartIdleTime)\nSUSPEND = $(MachineBusy)\nPREEMPT = $(MachineBusy)\n"
        'START      = ($(START)) || Owner == "coltrane"\nSUSPEND    = ($(SUSPEND)) && Owner != "coltrane"\n'
        'CONTINUE   = $(CONTINUE)\nPREEMPT    = ($(PREEMPT)) && Owner != "coltrane"\nKILL       = $(KILL)\n',
        gives=[
            ("START", BUSY, owner("coltrane"), True),
            ("START", BUSY, owner("tyner"), False),
            ("SUSPEND", BUSY, owner("coltrane"), False),
            ("PREEMPT", BUSY, owner("tyner"), True),
        ],
    ),
    Example(
        "time of day",
        "WorkHours = ( (ClockMin >= 480 && ClockMin < 1020) && \\\n              (ClockDay > 0 && ClockDay < 6) )\n"
        "AfterHours = ( (ClockMin < 480 || ClockMin >= 1020) || \\\n               (ClockDay == 0 || ClockDay == 6) )\n"
        "# Only start jobs after hours.\nSTART = $(AfterHours) && $(CPUIdle) && KeyboardIdle > $(StartIdleTime)\n"
        "# Consider the machine busy during work hours, or if the keyboard or\n# CPU are busy.\n"
        "MachineBusy = ( $(WorkHours) || $(CPUBusy) || $(KeyboardBusy) )\nWANT_SUSPEND = $(AfterHours)\n",
        gives=[
            ("START", IDLE | {"ClockMin": 1200, "ClockDay": 3}, {}, True),
            ("START", IDLE | {"ClockMin": 600, "ClockDay": 3}, {}, False),
            ("START", IDLE | {"ClockMin": 600, "ClockDay": 6}, {}, True),
            ("MachineBusy", IDLE | {"ClockMin": 600, "ClockDay": 3}, {}, True),
        ],
    ),
    Example(
        "desktops and others",
        'STARTD_ATTRS = IsDesktop\nSTART = ( ($(CPUIdle) || (State != "Unclaimed" && State != "Owner")) \\\n'
        "          && (IsDesktop =!= True || (KeyboardIdle > $(StartIdleTime))) )\n"
        "WANT_SUSPEND = ( $(SmallJob) || $(JustCpu) \\\n                 || $(IsVanilla) )\n"
        "WANT_VACATE  = ( $(ActivationTimer) > 10 * $(MINUTE) \\\n                 || $(IsVanilla) )\n"
        "SUSPEND = ( ((CpuBusyTime > 2 * $(MINUTE)) && ($(ActivationTimer) > 90)) \\\n"
        "            || ( IsDesktop =?= True && $(KeyboardBusy) ) )\n"
        "CONTINUE = ( $(CPUIdle) && ($(ActivityTimer) > 300) \\\n"
        "             && (IsDesktop =!= True || (KeyboardIdle > $(ContinueIdleTime))) )\n"
        'PREEMPT = ( ((Activity == "Suspended") && \\\n            ($(ActivityTimer) > $(MaxSuspendTime))) \\\n'
        "           || (SUSPEND && (WANT_SUSPEND == False)) )\n"
        "MAXJOBRETIREMENTTIME = (IsDesktop =!= True) * 0\nMachineMaxVacateTime = 10 * $(MINUTE)\nKILL = False\nIsDesktop = True\n",
        gives=[
            ("START", IDLE | {"IsDesktop": True, "KeyboardIdle": 10}, {}, False),
            ("START", IDLE | {"KeyboardIdle": 10}, {}, True),
            ("SUSPEND", BUSY | {"IsDesktop": True, "CpuBusyTime": 0, "JobStart": NOW}, {}, True),
            ("SUSPEND", BUSY | {"CpuBusyTime": 0, "JobStart": NOW}, {}, False),
            ("CONTINUE", IDLE | {"EnteredCurrentActivity": NOW - 301, "IsDesktop": True}, {}, True),
            ("MAXJOBRETIREMENTTIME", {"IsDesktop": True}, {}, 0),
        ],
    ),
    Example(
        "suspendable slots",
        "NUM_SLOTS = 4\nIsSuspendableSlot = SlotID > 2\n"
        'NonSuspendableSlotState = eval(strcat("slot",SlotID-2,"_State"))\n'
        "STARTD_SLOT_ATTRS = $(STARTD_SLOT_ATTRS) State\n"
        "STARTD_ATTRS = $(STARTD_ATTRS) IsSuspendableSlot NonSuspendableSlotState\n"
        "MyNonSuspendableSlotIsIdle = \\\n"
        '  (NonSuspendableSlotState =!= "Claimed" && NonSuspendableSlotState =!= "Preempting")\n'
        "START = \\\n  IsSuspendableSlot!=True && IsSuspendableJob=!=True || \\\n"
        "  IsSuspendableSlot && IsSuspendableJob==True && $(MyNonSuspendableSlotIsIdle)\n"
        "WANT_SUSPEND = True\nSUSPEND = \\\n  IsSuspendableSlot && $(MyNonSuspendableSlotIsIdle)!=True\n"
        "CONTINUE = $(SUSPEND)!=True\n",
        gives=[
            ("START", {"IsSuspendableSlot": False}, {}, True),
            (
                "START",
                {"IsSuspendableSlot": True, "NonSuspendableSlotState": "Unclaimed"},
                {"IsSuspendableJob": True},
                True,
            ),
            (
                "START",
                {"IsSuspendableSlot": True, "NonSuspendableSlotState": "Claimed"},
                {"IsSuspendableJob": True},
                False,
            ),
            ("SUSPEND", {"IsSuspendableSlot": True, "NonSuspendableSlotState": "Claimed"}, {}, True),
            ("NonSuspendableSlotState", {"SlotID": 3, "slot1_State": "Claimed"}, {}, "Claimed"),
        ],
        macros=False,
    ),
    Example(
        "interactive jobs on one slot",
        "START = ( (MY.SlotID == 1) && (TARGET.InteractiveJob =?= True) )\n"
        "RANK = ( (MY.SlotID == 1) && (TARGET.InteractiveJob =?= True) )\n",
        gives=[
            ("START", {"SlotID": 1}, {"InteractiveJob": True}, True),
            ("START", {"SlotID": 2}, {"InteractiveJob": True}, False),
            ("START", {"SlotID": 1}, {}, False),
        ],
    ),
    Example(
        "policies per slot",
        "PolicyForSlot1 = TRUE\nPolicyForSlot2 = FALSE\nSUSPEND = ( (SlotID == 1) && ($(PolicyForSlot1)) ) || \\\n"
        "          ( (SlotID == 2) && ($(PolicyForSlot2)) )\n",
        gives=[("SUSPEND", {"SlotID": 1}, {}, True), ("SUSPEND", {"SlotID": 2}, {}, False)],
    ),
    Example(
        "slot types",
        "SLOT_TYPE_1 = cpus=2, ram=128, swap=25%, disk=1/2\nSLOT_TYPE_2 = cpus=1/2, memory=128, virt=25%, disk=50%\n"
        "SLOT_TYPE_3 = c=1/2, m=50%, v=1/4, disk=1/2\nSLOT_TYPE_4 = c=25%, m=64, v=1/4, d=25%\nSLOT_TYPE_5 = 25%\n"
        "SLOT_TYPE_6 = 1/4\n",
        {"SLOT_TYPE_1": "cpus=2, ram=128, swap=25%, disk=1/2", "SLOT_TYPE_6": "1/4"},
    ),
    Example(
        "custom resources",
        "MACHINE_RESOURCE_NAMES = Cogs, actuator\nMACHINE_RESOURCE_Cogs = 16\nMACHINE_RESOURCE_actuator = 8\n"
        "SLOT_TYPE_1 = cogs=50%,actuator=6,50%\nSLOT_TYPE_1_PARTITIONABLE = TRUE\nNUM_SLOTS_TYPE_1 = 1\n"
        "SLOT_TYPE_2 = cogs=25%,actuator=1,25%\nSLOT_TYPE_2_PARTITIONABLE = FALSE\nNUM_SLOTS_TYPE_2 = 2\n",
        {"NUM_SLOTS_TYPE_2": "2", "SLOT_TYPE_1": "cogs=50%,actuator=6,50%"},
    ),
    Example(
        "slot types with constraints on GPUs",
        "SLOT_TYPE_1 @=slot\n   GPUs = 2 : Capability >= 8.0\n   90%\n@slot\nSLOT_TYPE_1_PARTITIONABLE = TRUE\n"
        'NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_2 @=slot\n   GPUs = 1 : "GPU-6a96bd13"\n   CPUs = 1\n   Memory = 10\n@slot\n'
        "SLOT_TYPE_2_PARTITIONABLE = FALSE\nNUM_SLOTS_TYPE_2 = 1\nSLOT_TYPE_3 = auto\n"
        "SLOT_TYPE_3_PARTITIONABLE = FALSE\nNUM_SLOTS_TYPE_3 = 2\n",
        {"SLOT_TYPE_1": "GPUs = 2 : Capability >= 8.0\n90%", "SLOT_TYPE_3": "auto"},
    ),
    Example(
        "attributes per slot",
        'favorite_color = "blue"\nfavorite_season = "spring"\nSTARTD_ATTRS = favorite_color, favorite_season\n'
        'SLOT2_favorite_color = "green"\nSLOT3_favorite_season = "summer"\nSLOT1_STARTD_ATTRS = favorite_movie\n'
        "SLOT2_STARTD_ATTRS = favorite_song\n",
        {"STARTD_ATTRS": "favorite_color, favorite_season", "SLOT2_favorite_color": '"green"'},
    ),
    Example(
        "consumption policy",
        "CLAIM_PARTITIONABLE_LEFTOVERS = False\nCONSUMPTION_POLICY = True\nSLOT_TYPE_1 = cpus=8\nSLOT_TYPE_1_PARTITIONABLE = True\n"
        "NUM_SLOTS_TYPE_1 = 1\nSLOT_TYPE_1_CONSUMPTION_POLICY = True\n"
        "CONSUMPTION_CPUS = quantize(target.RequestCpus,{1})\nCONSUMPTION_MEMORY = quantize(target.RequestMemory,{128})\n"
        "CONSUMPTION_DISK = quantize(target.RequestDisk,{1024})\nSLOT_TYPE_1_CONSUMPTION_CPUS = TARGET.RequestCpus\n"
        "SLOT_WEIGHT = Cpus\nMACHINE_RESOURCE_gpus = 4\nSLOT_TYPE_2_CONSUMPTION_gpus = TARGET.RequestGpu\n",
        {"CONSUMPTION_POLICY": "true"},
        [
            ("CONSUMPTION_MEMORY", {}, {"RequestMemory": 200}, 256),
            ("SLOT_TYPE_1_CONSUMPTION_CPUS", {}, {"RequestCpus": 3}, 3),
        ],
    ),
    Example(
        "rounding of requests",
        "MODIFY_REQUEST_EXPR_REQUESTCPUS = quantize(RequestCpus, {1})\n"
        "MODIFY_REQUEST_EXPR_REQUESTMEMORY = quantize(RequestMemory, {128})\n"
        "MODIFY_REQUEST_EXPR_REQUESTDISK = quantize(RequestDisk, {1024})\n",
        gives=[("MODIFY_REQUEST_EXPR_REQUESTMEMORY", {}, {"RequestMemory": 129}, 256)],
    ),
    Example(
        "quotas",
        "GROUP_NAMES = group_physics, group_chemistry\nGROUP_QUOTA_group_physics =   20\nGROUP_QUOTA_group_chemistry = 10\n",
        {"GROUP_QUOTA_group_physics": "20", "GROUP_NAMES": "group_physics, group_chemistry"},
    ),
    Example(
        "dynamic quotas of a hierarchy, with surplus",
        "GROUP_NAMES = group_physics, group_physics.hep, group_physics.lep, group_chemistry\n"
        "GROUP_QUOTA_DYNAMIC_group_chemistry   = 0.33334\nGROUP_QUOTA_DYNAMIC_group_physics     = 0.66667\n"
        "GROUP_QUOTA_DYNAMIC_group_physics.hep = 0.75\nGROUP_QUOTA_DYNAMIC_group_physics.lep = 0.25\n"
        "GROUP_ACCEPT_SURPLUS = False\nGROUP_ACCEPT_SURPLUS_group_physics = False\n"
        "GROUP_ACCEPT_SURPLUS_group_physics.lep = True\nGROUP_ACCEPT_SURPLUS_group_physics.hep = True\n"
        "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION = True\nGROUP_SORT_EXPR = GroupQuotaInUse / GroupQuota\n",
        {"GROUP_QUOTA_DYNAMIC_group_physics.hep": "0.75", "NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION": "true"},
        [("GROUP_SORT_EXPR", {"GroupQuotaInUse": 5.0, "GroupQuota": 10.0}, {}, 0.5)],
    ),
    Example(
        "defragmentation",
        "DAEMON_LIST = $(DAEMON_LIST) DEFRAG\nDEFRAG_INTERVAL = 3600\nDEFRAG_DRAINING_MACHINES_PER_HOUR = 1.0\n"
        "DEFRAG_MAX_WHOLE_MACHINES = 20\nDEFRAG_MAX_CONCURRENT_DRAINING = 10\n",
        {"DAEMON_LIST": "MASTER DEFRAG", "DEFRAG_INTERVAL": "3600"},
    ),
    Example(
        "hibernation",
        "HIBERNATE_CHECK_INTERVAL = 20\nTimeToWait  = (2 * $(HOUR))\nShouldHibernate = ( (KeyboardIdle > $(StartIdleTime)) \\\n"
        "                    && $(CPUIdle) \\\n                    && ($(StateTimer) > $(TimeToWait)) )\n"
        'HibernateState  = "RAM"\nHIBERNATE = ifThenElse($(ShouldHibernate), $(HibernateState), "NONE" )\n',
        gives=[
            ("HIBERNATE", IDLE | {"EnteredCurrentState": NOW - 8000}, {}, "RAM"),
            ("HIBERNATE", BUSY | {"EnteredCurrentState": NOW - 8000}, {}, "NONE"),
        ],
    ),
    Example(
        "backfill with BOINC",
        "ENABLE_BACKFILL = TRUE\nBACKFILL_SYSTEM = BOINC\nSTART_BACKFILL = $(StateTimer) > (5 * $(MINUTE))\n"
        "EVICT_BACKFILL = $(MachineBusy)\nBOINC_HOME = /scratch/boinc\nBOINC_Executable = /usr/local/bin/boinc_client\n"
        "BOINC_Universe = vanilla\nBOINC_InitialDir = $(BOINC_HOME)\nBOINC_Output = $(BOINC_HOME)/boinc.out\n"
        "BOINC_Error = $(BOINC_HOME)/boinc.err\nBOINC_Owner = nobody\n"
        "BOINC_Arguments = --dir $(BOINC_HOME) \\\n              --attach_project http://example.org [account_key]\n",
        {
            "BOINC_Output": "/scratch/boinc/boinc.out",
            "BOINC_Arguments": "--dir /scratch/boinc --attach_project http://example.org [account_key]",
        },
        [
            ("START_BACKFILL", {"EnteredCurrentState": NOW - 400}, {}, True),
            ("EVICT_BACKFILL", BUSY, {}, True),
            ("EVICT_BACKFILL", IDLE, {}, False),
        ],
    ),
    Example(
        "hooks that fetch work",
        "STARTD_JOB_HOOK_KEYWORD = DATABASE\nSLOT4_JOB_HOOK_KEYWORD = WEB\n"
        "DATABASE_HOOK_DIR = /usr/local/condor/fetch/database\nDATABASE_HOOK_FETCH_WORK = $(DATABASE_HOOK_DIR)/fetch_work.php\n"
        "DATABASE_HOOK_REPLY_FETCH = $(DATABASE_HOOK_DIR)/reply_fetch.php\nWEB_HOOK_DIR = /usr/local/condor/fetch/web\n"
        "WEB_HOOK_FETCH_WORK = $(WEB_HOOK_DIR)/fetch_work.php\n"
        'FetchWorkDelay = ifThenElse(State == "Claimed" && Activity == "Idle", 0, 300)\n',
        {"WEB_HOOK_FETCH_WORK": "/usr/local/condor/fetch/web/fetch_work.php"},
        [
            ("FetchWorkDelay", {"State": "Claimed", "Activity": "Idle"}, {}, 0),
            ("FetchWorkDelay", {"State": "Unclaimed", "Activity": "Idle"}, {}, 300),
        ],
    ),
    Example(
        "hooks that prepare jobs",
        "LIBEXEC = /usr/libexec/condor\nJAVA5_HOOK_PREPARE_JOB = $(LIBEXEC)/java5_prepare_hook\nHasJava5PrepareHook = True\n"
        "STARTD_ATTRS = HasJava5PrepareHook $(STARTD_ATTRS)\n",
        {"JAVA5_HOOK_PREPARE_JOB": "/usr/libexec/condor/java5_prepare_hook"},
    ),
    Example(
        "startd cron",
        "ROOT = /opt\nMODULES = $(ROOT)/modules\nSTARTD_CRON_CONFIG_VAL = $(RELEASE_DIR)/bin/condor_config_val\n"
        "STARTD_CRON_LOG_NON_ZERO_EXIT = true\nuse FEATURE : StartdCronPeriodic(test, 60, $(MODULES)/test)\n"
        "use FEATURE : StartdCronContinuous(kfilter, $(MODULES)/kfilter, -a -b)\n"
        "use FEATURE : StartdCronOneShot(once, $(MODULES)/once)\n",
        {
            "STARTD_CRON_JOBLIST": " test kfilter once",
            "STARTD_CRON_test_EXECUTABLE": "/opt/modules/test",
            "STARTD_CRON_test_PERIOD": "60",
            "STARTD_CRON_test_MODE": "Periodic",
            "STARTD_CRON_kfilter_ARGS": "-a -b",
            "STARTD_CRON_once_MODE": "OneShot",
        },
    ),
    Example(
        "schedd cron",
        "SCHEDD_CRON_CONFIG_VAL = $(RELEASE_DIR)/bin/condor_config_val\n"
        "use FEATURE : ScheddCronPeriodic(TEST, 5m, /opt/modules/test)\n",
        {
            "SCHEDD_CRON_JOBLIST": " TEST",
            "SCHEDD_CRON_TEST_PERIOD": "5m",
            "SCHEDD_CRON_CONFIG_VAL": "/usr/bin/condor_config_val",
        },
    ),
    Example(
        "containers",
        "DOCKER_VOLUMES = SOME_DIR, ANOTHER_DIR\nDOCKER_VOLUME_DIR_SOME_DIR = /path1\n"
        'DOCKER_VOLUME_DIR_SOME_DIR_MOUNT_IF = WantSomeDirMounted && Owner == "smith"\n'
        "DOCKER_NETWORKS = some_virtual_network, another_network\n"
        "DOCKER_SHM_SIZE = ifThenElse(DevShmSize isnt Undefined && isInteger(DevShmSize) && int(DevShmSize) <= "
        "(Memory * 1024 * 1024), int(DevShmSize), 2 * 1024 * 1024 * 1024)\n"
        "SINGULARITY_JOB = !isUndefined(TARGET.SingularityImage)\nSINGULARITY_IMAGE_EXPR = TARGET.SingularityImage\n"
        'SINGULARITY_BIND_EXPR = (Target.Owner == "TrustedUser") ? SomeExpressionFromJob : ""\n'
        "SINGULARITY = /opt/singularity/bin/singularity\n",
        gives=[
            ("DOCKER_VOLUME_DIR_SOME_DIR_MOUNT_IF", {}, {"WantSomeDirMounted": True, "Owner": "smith"}, True),
            ("DOCKER_SHM_SIZE", {"Memory": 100}, {"DevShmSize": 5}, 5),
            ("SINGULARITY_JOB", {}, {"SingularityImage": "x"}, True),
            ("SINGULARITY_JOB", {}, {}, False),
        ],
    ),
    Example(
        "virtual machines",
        "VM_TYPE = kvm\nVM_MEMORY = 512\nVM_GAHP_SERVER = $(SBIN)/condor_vm-gahp\n",
        {"VM_TYPE": "kvm"},
    ),
    Example(
        "GPUs",
        "use feature : GPUs\nGPU_DISCOVERY_EXTRA = -extra\n",
        {"MACHINE_RESOURCE_INVENTORY_GPUs": "/usr/libexec/condor_gpu_discovery  -properties -extra"},
    ),
    Example(
        "submit requirements",
        "SUBMIT_REQUIREMENT_NAMES = NotStandardUniverse, MinimalRequestMemory, NotChris\n"
        "SUBMIT_REQUIREMENT_NotStandardUniverse = JobUniverse != 1\nSUBMIT_REQUIREMENT_MinimalRequestMemory = RequestMemory > 512\n"
        'SUBMIT_REQUIREMENT_NotChris = Owner != "chris"\n'
        'SUBMIT_REQUIREMENT_NotStandardUniverse_REASON = "This pool does not accept standard universe jobs."\n'
        'SUBMIT_REQUIREMENT_MinimalRequestMemory_REASON = strcat( "The job only requested ", \\\n'
        '  RequestMemory, " Megabytes.  If that small amount is really enough, please contact ..." )\n'
        'SUBMIT_REQUIREMENT_NotChris_REASON = "Chris, you may only submit jobs to the instructional pool."\n',
        gives=[
            ("SUBMIT_REQUIREMENT_MinimalRequestMemory", {}, {"RequestMemory": 500}, False),
            ("SUBMIT_REQUIREMENT_NotChris", {}, owner("chris"), False),
            ("SUBMIT_REQUIREMENT_NotStandardUniverse", {}, {"JobUniverse": 5}, True),
            (
                "SUBMIT_REQUIREMENT_MinimalRequestMemory_REASON",
                {},
                {"RequestMemory": 5},
                "The job only requested 5 Megabytes.  If that small amount is really enough, please contact ...",
            ),
        ],
    ),
    Example(
        "submit warnings",
        "SUBMIT_REQUIREMENT_NAMES = Base\nSUBMIT_REQUIREMENT_Base = true\n"
        "SUBMIT_REQUIREMENT_NAMES = OneGig $(SUBMIT_REQUIREMENT_NAMES)\nSUBMIT_REQUIREMENT_OneGig = RequestMemory > 1024\n"
        'SUBMIT_REQUIREMENT_OneGig_REASON = "As of <date>, the minimum requested memory will be 1024."\n'
        "SUBMIT_REQUIREMENT_OneGig_IS_WARNING = TRUE\n",
        {"SUBMIT_REQUIREMENT_NAMES": "OneGig Base", "SUBMIT_REQUIREMENT_OneGig_IS_WARNING": "TRUE"},
    ),
    Example(
        "job transforms",
        "JOB_TRANSFORM_NAMES = AssignGroup, SL6ToDocker\nJOB_TRANSFORM_AssignGroup @=end\n"
        "   # map Owner to group using the existing accounting group attribute as requested group\n"
        '   EVALSET AcctGroup = userMap("Groups",Owner,AcctGroup)\n   EVALSET AccountingGroup = join(".",AcctGroup,Owner)\n'
        "@end\nJOB_TRANSFORM_SL6ToDocker @=end\n"
        "   REQUIREMENTS JobUniverse==5 && WantSL6 && DockerImage =?= undefined\n   SET WantDocker = true\n"
        '   SET DockerImage = "SL6"\n   SET Requirements = TARGET.HasDocker && $(MY.Requirements)\n@end\n',
        {
            "JOB_TRANSFORM_AssignGroup": 'EVALSET AcctGroup = userMap("Groups",Owner,AcctGroup)\n'
            'EVALSET AccountingGroup = join(".",AcctGroup,Owner)'
        },
    ),
    Example(
        "retirement ends for better jobs",
        "MaxJobRetirementTime = 3600 * ( \\\n  MY.PreemptingRank =?= UNDEFINED || \\\n  PreemptingRank < 600)\n",
        gives=[("MaxJobRetirementTime", {}, {}, 3600), ("MaxJobRetirementTime", {"PreemptingRank": 700}, {}, 0)],
    ),
    Example(
        "two days of retirement",
        "MAXJOBRETIREMENTTIME = $(HOUR) * 24 * 2\n",
        gives=[("MAXJOBRETIREMENTTIME", {}, {}, 172800)],
    ),
    Example(
        "no preemption",
        "PREEMPT = False\nPREEMPTION_REQUIREMENTS = False\nRANK = 0\nNEGOTIATOR_CONSIDER_PREEMPTION = False\n",
        {"PREEMPTION_REQUIREMENTS": "False", "NEGOTIATOR_CONSIDER_PREEMPTION": "false"},
    ),
    Example(
        "background slot (6.8)",
        "NUM_CPUS = 2\nSTART = (VirtualMachineID == 1) && $(VM1_START) || \\\n        (VirtualMachineID == 2) && $(VM2_START)\n"
        'VM1_START = (TARGET.IsHighPrioJob =?= TRUE)\nVM2_START = ( (vm1_Activity != "Busy") && \\ \n'
        '              (KeyboardIdle > $(StartIdleTime)) && \\\n\t      ($(CPUIdle) || (State != "Unclaimed" && State != "Owner")) )\n'
        'SUSPEND = (VirtualMachineID == 2) && \\\n          ( (vm1_Activity == "Busy") || ($(KeyboardBusy)) )\n'
        'CONTINUE = (KeyboardIdle > $(ContinueIdleTime)) && \\\n           (vm1_Activity != "Busy")\n',
        gives=[
            ("START", IDLE | {"VirtualMachineID": 2, "vm1_Activity": "Idle"}, {}, True),
            ("START", IDLE | {"VirtualMachineID": 1}, {"IsHighPrioJob": True}, True),
            ("START", IDLE | {"VirtualMachineID": 1}, {}, False),
            ("SUSPEND", IDLE | {"VirtualMachineID": 2, "vm1_Activity": "Busy"}, {}, True),
        ],
    ),
    Example(
        "UWCS policy (6.8)",
        "WANT_SUSPEND       = ( $(SmallJob) || $(KeyboardNotBusy) \\\n                       || $(IsPVM) || $(IsVanilla) )\n"
        "START        = ( (KeyboardIdle > $(StartIdleTime)) \\\n                  && ( $(CPUIdle) || \\\n"
        '                       (State != "Unclaimed" && State != "Owner")) )\n'
        "SUSPEND         = ( $(KeyboardBusy) || \\\n                 ( (CpuBusyTime > 2 * $(MINUTE)) \\\n"
        "                    && $(ActivationTimer) > 90 ) )\nCONTINUE        = ( $(CPUIdle) && ($(ActivityTimer) > 10) \\\n"
        '                  && (KeyboardIdle > $(ContinueIdleTime)) )\nPREEMPT\t        = ( ((Activity == "Suspended") && \\\n'
        "                    ($(ActivityTimer) > $(MaxSuspendTime))) \\\n"
        "                    || (SUSPEND && (WANT_SUSPEND == False)) )\nMaxJobRetirementTime = 0\n"
        "KILL            = $(ActivityTimer) > $(MaxVacateTime)\n"
        "PERIODIC_CHECKPOINT     = ( (ImageSize < 60000) && \\\n                            ($(LastCkpt) > (6 * $(HOUR))) ) || \\ \n"
        "                          ( $(LastCkpt) > (12 * $(HOUR)) )\n",
        gives=[
            ("START", IDLE, {}, True),
            ("START", BUSY, {}, False),
            ("SUSPEND", BUSY | {"CpuBusyTime": 0, "JobStart": NOW}, {}, True),
            ("PREEMPT", {"Activity": "Suspended", "EnteredCurrentActivity": NOW - 700}, {}, True),
            ("KILL", {"EnteredCurrentActivity": NOW - 601}, {}, True),
            ("PERIODIC_CHECKPOINT", {"LastPeriodicCheckpoint": NOW - 25_000}, {"ImageSize": 100}, True),
        ],
    ),
    Example(
        "CS policy (6.2)",
        "CPU_Idle = $(NonCondorLoadAvg) <= $(BackgroundLoad)\nCPU_Busy = $(NonCondorLoadAvg) >= $(HighLoad)\n"
        "CS_START = $(CPU_Idle) && KeyboardIdle > $(StartIdleTime)\nCS_SUSPEND = $(MachineBusy)\n"
        "CS_CONTINUE = (KeyboardIdle > $(ContinueIdleTime)) && $(CPU_Idle)\n"
        'CS_PREEMPT = ( ($(ActivityTimer) > $(MaxSuspendTime)) && \\\n(Activity == "Suspended") ) || \\\n'
        "( $(MachineBusy) && (WANT_SUSPEND == False) )\nCS_KILL = ($(ActivityTimer) > $(MaxVacateTime))\nSTART = $(CS_START)\n",
        gives=[
            ("START", IDLE, {}, True),
            ("CS_SUSPEND", BUSY, {}, True),
            ("CS_KILL", {"EnteredCurrentActivity": NOW}, {}, False),
        ],
    ),
]


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "condor_config"
    path.write_text(text)
    return load(path, subsystem="STARTD", env={})


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example(example: Example, tmp_path: Path) -> None:
    config = read(tmp_path, (MACROS if example.macros else "") + example.text)
    assert [problem for problem in check(config) if problem.severity == "error"] == []
    for name, text in example.texts.items():
        value = config.typed(name)
        shown = str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
        assert shown == text, name
    for name, machine, job, expected in example.gives:
        expr = ExprTree(config.get_str(name))
        assert expr.eval(ClassAd(machine), ClassAd(job), now=NOW) == expected, (name, machine, job)


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        # printed without the last parenthesis
        (
            "CPUBusy = (LoadAvg - CondorLoadAvg) >= 0.5\nKeyboardBusy = KeyboardIdle < 60\n"
            "MachineBusy             = ($(CPUBusy) || $(KeyboardBusy)\nSUSPEND = $(MachineBusy)\n",
            4,
            "SUSPEND",
        ),
        # printed without a comparison's right side on the next line
        ("START = ( (KeyboardIdle > 900) \\\n   && ( LoadAvg < 0.3 || \\\n", 2, "START"),
        ('RANK = ifThenElse(Owner == "coltrane", 10\n', 1, "RANK"),
        ('PREEMPT = (Activity == "Suspended) || False\n', 1, "PREEMPT"),
    ],
)
def test_broken_examples_get_an_error_at_their_place(text: str, line: int, name: str, tmp_path: Path) -> None:
    (problem,) = [problem for problem in check(read(tmp_path, text)) if problem.severity == "error"]
    assert problem.origin is not None
    assert (problem.name, problem.origin.line, problem.code) == (name, line, "config-bad-expression")


def test_the_missing_parenthesis_is_named(tmp_path: Path) -> None:
    (problem,) = check(read(tmp_path, "SUSPEND = ((LoadAvg > 0.5) || (KeyboardIdle < 60)\n"))
    assert problem.hint == "1 closing parenthesis missing"
