# ruff: noqa: E501
"""What a pool can do: slots, resources, quotas, draining, backfill, hooks, cron, containers, requirements, transforms."""

from __future__ import annotations

from tests.support.manual import BUSY, IDLE, NOW, Example, owner

FEATURES = [
    Example(
        "slot types",
        "SLOT_TYPE_1 = cpus=2, ram=128, swap=25%, disk=1/2\nSLOT_TYPE_2 = cpus=1/2, memory=128, virt=25%, disk=50%\n"
        "SLOT_TYPE_3 = c=1/2, m=50%, v=1/4, disk=1/2\nSLOT_TYPE_4 = c=25%, m=64, v=1/4, d=25%\nSLOT_TYPE_5 = 25%\n"
        "SLOT_TYPE_6 = 1/4\n",
        {"SLOT_TYPE_1": "cpus=2, ram=128, swap=25%, disk=1/2", "SLOT_TYPE_6": "1/4"},
    ),
    Example(
        "an amount of memory in all forms",
        "SLOT_TYPE_1 = mem=64\nSLOT_TYPE_2 = mem=1/2\nSLOT_TYPE_3 = mem=50%\nSLOT_TYPE_4 = mem=auto\n",
        {"SLOT_TYPE_2": "mem=1/2"},
    ),
    Example(
        "the resources that a slot type does not name",
        "SLOT_TYPE_1 = cpus=1, ram=1/2, swap=50%\nSLOT_TYPE_2 = cpus=1, disk=auto, 50%\n",
        {"SLOT_TYPE_2": "cpus=1, disk=auto, 50%"},
    ),
    Example(
        "a partitionable slot of the whole machine",
        "SLOT_TYPE_1 = 100%\nSLOT_TYPE_1_PARTITIONABLE = TRUE\nNUM_SLOTS_TYPE_1 = 1\n",
        {"SLOT_TYPE_1": "100%"},
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
        "an attribute of the administrator's",
        'STARTD_ATTRS = $(STARTD_ATTRS) GenomeDBPath\nGenomeDBPath = "/path/to/db"\n',
        {"GenomeDBPath": '"/path/to/db"'},
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
        "SINGULARITY = /opt/singularity/bin/singularity\nSINGULARITY_TARGET_DIR = /srv\n"
        'SINGULARITY_EXTRA_ARGUMENTS = ifThenElse(TARGET.WantsWritable =?= true, "-w", "")\n',
        gives=[
            ("SINGULARITY_EXTRA_ARGUMENTS", {}, {"WantsWritable": True}, "-w"),
            ("SINGULARITY_EXTRA_ARGUMENTS", {}, {}, ""),
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
]
