# ruff: noqa: E501
"""What a machine's owner wants: START, RANK, SUSPEND, PREEMPT, retirement, whole policies."""

from __future__ import annotations

from slotwise.classad import ERROR

from tests.support.manual import BUSY, IDLE, NOW, Example, owner

#: Macros that only the chapter of 6.2 writes so.
_CPU_BY_62 = (
    "CPU_Idle = $(NonCondorLoadAvg) <= $(BackgroundLoad)\nCPU_Busy = $(NonCondorLoadAvg) >= $(HighLoad)\n"
    "MachineBusy = ($(CPU_Busy) || $(KeyboardBusy))\n"
)
_CS_POLICY_62 = (
    "MaxVacateTime = 5 * $(MINUTE)\n" + _CPU_BY_62 + "BigJob = (ImageSize > (30 * 1024))\n"
    "MediumJob = (ImageSize <= (30 * 1024) && ImageSize >= (10 * 1024))\nSmallJob = (ImageSize < (10 * 1024))\n"
    "WANT_SUSPEND : $(SmallJob)\nWANT_VACATE : $(MediumJob) || $(SmallJob)\nWANT_SUSPEND_VANILLA : True\n"
    "WANT_VACATE_VANILLA : True\nCS_START = $(CPU_Idle) && KeyboardIdle > $(StartIdleTime)\n"
    "CS_SUSPEND = $(CPU_Busy) || $(KeyboardBusy)\nCS_CONTINUE = (KeyboardIdle > $(ContinueIdleTime)) && $(CPU_Idle)\n"
    'CS_PREEMPT = ( ($(ActivityTimer) > $(MaxSuspendTime)) && \\\n(Activity == "Suspended") ) || \\\n'
    "( $(MachineBusy) && (WANT_SUSPEND == False) )\nCS_KILL = ($(ActivityTimer) > $(MaxVacateTime))\n"
    "START : $(CS_START)\nSUSPEND : $(CS_SUSPEND)\nCONTINUE : $(CS_CONTINUE)\nPREEMPT : $(CS_PREEMPT)\nKILL : $(CS_KILL)\n"
    "PERIODIC_CHECKPOINT : (($(LastCkpt) > (3 * $(HOUR))) \\\n&& $(BigJob)) || (($(LastCkpt) > (12 * $(HOUR))) && \\\n"
    "($(SmallJob) || $(MediumJob)))\n"
)

POLICIES = [
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
        "desktops by the former name of STARTD_ATTRS (6.8)",
        "STARTD_EXPRS = IsDesktop\nSTART = IsDesktop =!= True || (KeyboardIdle > $(StartIdleTime))\nIsDesktop = True\n",
        gives=[("START", IDLE | {"IsDesktop": True, "KeyboardIdle": 10}, {}, False)],
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
        "rank by owner, then by size",
        'RANK = (Owner == "coltrane" * 1000000000000) + Imagesize\n',
        gives=[("RANK", {}, {"Owner": "miles", "ImageSize": 77}, ERROR)],
    ),
    Example(
        "rank without parentheses (6.2)",
        'RANK : Owner == "coltrane" + Owner == "tyner" \\\n+ (Owner == "garrison") * 10 + Owner == "jones"\n',
        gives=[("RANK", {}, owner("garrison"), ERROR)],
    ),
    Example(
        "owner state of a desktop",
        'START = KeyboardIdle > 15 * $(MINUTE) && Owner == "coltrane"\nIS_OWNER = (START =?= FALSE)\n',
        {"IS_OWNER": "(START =?= FALSE)"},
    ),
    Example(
        "suspend vanilla jobs, too (6.2)",
        "WANT_SUSPEND : True\nWANT_VACATE : $(ActivationTimer) > 10 * $(MINUTE)\nSUSPEND : $(KeyboardBusy) || $(CPUBusy)\n"
        "WANT_SUSPEND_VANILLA : True\nWANT_VACATE_VANILLA : True\nSUSPEND_VANILLA : $(KeyboardBusy) || $(CPUBusy)\n",
        {"WANT_VACATE_VANILLA": "True"},
        [("SUSPEND_VANILLA", BUSY, {}, True), ("SUSPEND_VANILLA", IDLE, {}, False)],
    ),
    Example(
        "benchmarks by a timer (6.2, 6.8)",
        "BenchmarkTimer = (time() - LastBenchmark)\nRunBenchmarks : $(BenchmarkTimer) >= (4 * $(HOUR))\n",
        gives=[
            ("RunBenchmarks", {"LastBenchmark": NOW - 20_000}, {}, True),
            ("RunBenchmarks", {"LastBenchmark": NOW}, {}, False),
        ],
    ),
    Example(
        "default policy (6.2)",
        "MaxVacateTime = 5 * $(MINUTE)\n" + _CPU_BY_62 + "WANT_SUSPEND : True\n"
        "WANT_VACATE : $(ActivationTimer) > 10 * $(MINUTE)\nSTART : $(CPU_Idle) && KeyboardIdle > $(StartIdleTime)\n"
        "SUSPEND : $(MachineBusy)\nCONTINUE : $(CPU_Idle) && KeyboardIdle > $(ContinueIdleTime)\n"
        'PREEMPT : ( ($(ActivityTimer) > $(MaxSuspendTime)) && \\\n(Activity == "Suspended") ) || \\\n'
        "( $(MachineBusy) && (WANT_SUSPEND == False) )\nKILL : $(ActivityTimer) > $(MaxVacateTime)\n"
        "PERIODIC_CHECKPOINT : ( (ImageSize < 60000) && \\\n($(LastCkpt) > (6 * $(HOUR))) ) || \\\n"
        "( $(LastCkpt) > (12 * $(HOUR)) )\n",
        gives=[
            ("START", IDLE, {}, True),
            ("SUSPEND", BUSY, {}, True),
            ("CONTINUE", IDLE, {}, True),
            ("KILL", {"EnteredCurrentActivity": NOW - 301}, {}, True),
        ],
    ),
    Example(
        "CS policy (6.2)",
        _CS_POLICY_62,
        gives=[
            ("START", IDLE, {}, True),
            ("SUSPEND", BUSY, {}, True),
            ("KILL", {"EnteredCurrentActivity": NOW}, {}, False),
            ("WANT_SUSPEND", {}, {"ImageSize": 100}, True),
            ("WANT_VACATE", {}, {"ImageSize": 20 * 1024}, True),
            ("WANT_VACATE", {}, {"ImageSize": 40 * 1024}, False),
            ("PERIODIC_CHECKPOINT", {"LastPeriodicCheckpoint": NOW - 4 * 3600}, {"ImageSize": 40 * 1024}, True),
            ("PERIODIC_CHECKPOINT", {"LastPeriodicCheckpoint": NOW - 4 * 3600}, {"ImageSize": 100}, False),
        ],
    ),
    Example(
        "test job on the CS policy (6.2)",
        _CS_POLICY_62
        + 'START : ($(CS_START)) || Owner == "coltrane"\nSUSPEND : ($(CS_SUSPEND)) && Owner != "coltrane"\n'
        'CONTINUE : $(CS_CONTINUE)\nPREEMPT : ($(CS_PREEMPT)) && Owner != "coltrane"\nKILL : $(CS_KILL)\n',
        gives=[("START", BUSY, owner("coltrane"), True), ("SUSPEND", BUSY, owner("coltrane"), False)],
    ),
]
