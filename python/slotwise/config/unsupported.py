# ruff: noqa: E501 - a rule is a row
"""Knobs of HTCondor that Slotwise does not honour: what each would do, and how much that matters.

A knob that an administrator writes is honoured (the code reads it), or a rule here says what it promises, or it is
unknown. ``tests/unit/test_knob_classes.py`` derives the first from the code and compares it with the other two.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from slotwise.model import words


class Effect(Enum):
    """What is lost without the knob."""

    #: The isolation of jobs from the host and from each other.
    ISOLATION = "isolation"
    #: The refusal of callers or requests by a daemon.
    REFUSAL = "refusal"
    #: The policy for jobs and machines.
    POLICY = "policy"
    #: A service.
    SERVICE = "service"
    #: Nothing that matters.
    NONE = "none"


class Rule(Struct, frozen=True):
    """Knobs whose names match ``names`` (a regular expression), and what is lost.

    ``off``: values (in lower case) with which the knob requests nothing, or what happens anyway; its default and the
    empty value are among them. ``words_off``: each word of a list is such a value. ``text`` continues the sentence
    that begins with the knob's name; ``hint`` is the remedy.
    """

    names: str
    effect: Effect
    text: str
    hint: str = ""
    off: tuple[str, ...] = ()
    words_off: bool = False

    def asks_for_nothing(self, text: str, default: str | None) -> bool:
        """Whether a value changes nothing."""
        plain = text.strip().lower()
        if not plain or plain == (default or "").strip().lower() or plain in self.off:
            return True
        return self.words_off and all(word in self.off for word in re.split(r"[\s,]+", plain) if word)


_FALSE = tuple(sorted(words.FALSE))
_TRUE = tuple(sorted(words.TRUE))
_LEVEL_NAMES = (
    "READ", "WRITE", "DAEMON", "ADMINISTRATOR", "NEGOTIATOR", "CONFIG", "OWNER", "CLIENT", "DEFAULT", "SOAP",
    "ADVERTISE_MASTER", "ADVERTISE_SCHEDD", "ADVERTISE_STARTD",
)  # fmt: skip
_LEVELS = f"({'|'.join(_LEVEL_NAMES)})(_[A-Z_]+)?"
_CALLED = "certificates decide whom they trust: see the guide on security"
_EVERYBODY = ("*", "*/*", "*@*")


def _isolation(names: str, text: str, hint: str = "", off: tuple[str, ...] = _FALSE) -> Rule:
    return Rule(names, Effect.ISOLATION, text, hint, off)


def _refusal(names: str, text: str, hint: str = "", off: tuple[str, ...] = (), *, words_off: bool = False) -> Rule:
    return Rule(names, Effect.REFUSAL, text, hint, off, words_off)


def _policy(names: str, text: str, hint: str = "", off: tuple[str, ...] = _FALSE) -> Rule:
    return Rule(names, Effect.POLICY, text, hint, off)


def _service(names: str, text: str, hint: str = "", off: tuple[str, ...] = _FALSE) -> Rule:
    return Rule(names, Effect.SERVICE, text, hint, off)


def _none(names: str, text: str = "has no effect here") -> Rule:
    return Rule(names, Effect.NONE, text)


#: The first rule that matches a name applies.
RULES: tuple[Rule, ...] = (
    # ------------------------------------------------------------------------------------------------------ isolation
    _isolation("NAMED_CHROOT", "promises root directories that jobs do not get", off=()),
    _isolation("NO_JOB_NETWORKING", "promises jobs without network, and they have it"),
    _isolation("LIMIT_DIRECTORY_ACCESS", "promises that files of jobs are read and written below these directories only, and they are not: a job's files are wherever its owner may", "what must stay closed is closed by the permissions of the files' owner", off=()),
    _isolation("GLEXEC_JOB", "promises a change of user by glexec that does not happen"),
    _isolation("STARTER_LVM_ENCRYPT.*", "promises encryption of scratch directories that Slotwise does not do"),
    # -------------------------------------------------------------------------------------------------------- refusal
    _refusal(f"HOST(ALLOW|DENY)_{_LEVELS}", "keeps nobody out, as in HTCondor 9 and later", "write it without HOST"),
    _refusal("ALLOW_CLIENT(_[A-Z_]+)?", "keeps no command and no daemon from calling others", _CALLED, _EVERYBODY, words_off=True),
    _refusal("DENY_CLIENT(_[A-Z_]+)?", "keeps no command and no daemon from calling others", _CALLED),
    _refusal("ALLOW_(OWNER|SOAP)(_[A-Z_]+)?", "keeps nobody out: no call needs that level", "see ALLOW_ADMINISTRATOR", _EVERYBODY, words_off=True),
    _refusal("DENY_(OWNER|SOAP)(_[A-Z_]+)?", "keeps nobody out: no call needs that level", "see DENY_ADMINISTRATOR"),
    _refusal("COLLECTOR_REQUIREMENTS", "keeps no ad out of the collector", off=("true",)),
    _refusal("STARTER_ALLOW_JOB_PRE_AND_POST_CMD", "refuses nothing: jobs have no such commands", off=("true", *_FALSE)),
    # --------------------------------------------------------------------------------------------------------- policy
    _policy(
        r"[A-Za-z0-9_]+_HOOK_REPLY_CLAIM",
        "is never called, nor by HTCondor 25",
        "write <KEYWORD>_HOOK_REPLY_FETCH",
    ),
    _policy(
        r"[A-Za-z0-9_]+_HOOK_(TRANSLATE_JOB|JOB_FINALIZE|JOB_CLEANUP)",
        "is never called: there is no job router",
    ),
    _policy("FLOCK_.*|MIN_FLOCK_LEVEL", "sends no job to another pool"),
    _policy("EXECUTE_LOGIN_IS_DEDICATED|NOBODY_SLOT_USER", "has no effect", "see SLOT<N>_USER"),
    _policy("CGROUP_LOW_MEMORY_LIMIT_EXPR|CGROUP_SOFT_MEMORY_LIMIT.*", "limits nothing", "CGROUP_LOW_MEMORY_LIMIT does"),
    _policy("DAEMON_SHUTDOWN(_FAST)?|(MASTER|COLLECTOR|NEGOTIATOR|SCHEDD|STARTD)_DAEMON_SHUTDOWN(_FAST)?", "stops no daemon"),
    _policy("DEFRAG_SCHEDULE", "has no effect", "write DEFRAG_DRAINING_SCHEDULE"),
    _policy("NUM_CLAIMS", "has no effect", "see ENABLE_CLAIMABLE_PARTITIONABLE_SLOTS"),
    _policy("SCHEDD_PREEMPTION_(RANK|REQUIREMENTS)", "preempts nothing: no job is preempted for a parallel one by its schedd", "see RANK in the guide on parallel jobs"),
    _policy("QUEUE_ALL_USERS_TRUSTED", "gives nobody the jobs of others"),
    _policy("SETTABLE_ATTRS|SETTABLE_ATTRS_OWNER", "lets nobody set anything: no caller has such a level", "see SETTABLE_ATTRS_CONFIG"),
    _policy("[A-Z]+_SETTABLE_ATTRS_[A-Z_]+", "lets nobody set anything, as in HTCondor", "write SCHEDD.SETTABLE_ATTRS_CONFIG"),
    _policy("CLASSAD_USER_(LIBS|PYTHON_LIB|PYTHON_MODULES)", "adds no function to expressions"),
    _policy("MAX_TRANSFER_(QUEUE_AGE|LIFETIME)|STARTER_(FILE_XFER_STALL|UPLOAD)_TIMEOUT", "ends no transfer"),
    _policy("NEGOTIATE_ALL_JOBS_IN_CLUSTER|CURB_MATCHMAKING|CLAIM_RECYCLING_CONSIDER_LIMITS", "has no effect"),
    _policy("PERIODIC_CHECKPOINT|WALL_CLOCK_CKPT_INTERVAL", "makes no checkpoint"),
    _policy("MASTER_[A-Za-z]+_BACKOFF_(CEILING|CONSTANT|FACTOR)|MASTER_[A-Za-z]+_RECOVER_FACTOR", "holds for no daemon", "write it without the daemon's name"),
    _service("CCB_SERVER_MAX_STREAMING_(SESSIONS|HANDSHAKES)", "bounds nothing", "SHARED_PORT_MAX_FILE_DESCRIPTORS bounds connections", off=("0",)),
    _service("CCB_(SERVER|CLIENT)_STREAMING", "has no effect: a broker always passes on what hosts say", off=("true",)),
    _none("CCB_SERVER_STREAMING_HANDSHAKE_TIMEOUT"),
    _policy("CCB_REQUIRED_TO_START", "keeps no daemon from starting: one without its broker goes on asking for it"),
    _policy("MAX_NUM_CPUS", "limits nothing", "write NUM_CPUS"),
    _policy("SHADOW_WORKLIFE|SCHEDD_MIN_INTERVAL|SUBMIT_MAX_PROCS_IN_CLUSTER|SUBMIT_PREVENT_MULTI_QUEUE", "has no effect"),
    _policy("HOLD_JOB_IF_CREDENTIAL_EXPIRES", "holds no job", off=("true", *_FALSE)),
    _policy("MAX_SHADOW_EXCEPTIONS|GRACEFULLY_REMOVE_JOBS|SCHEDD_CLUSTER_(INCREMENT|INITIAL|MAXIMUM)_VALUE", "has no effect"),
    # ------------------------------------------------------------------------------------------------------- services
    _service("DOCKER_(LOG_DRIVER_NAME|NETWORK_NAME)", "has no effect", "write DOCKER_LOG_DRIVER_NONE, or docker_network_type in the job"),
    _service("DOCKER_PAT_PRODUCER", "sends no registry credentials with jobs", off=("$(SBIN)/condor_docker_pat_producer",)),
    _service("SUBMIT_CONTAINER_.*", "has no effect: an absolute path is a program of the image only with transfer_executable = false"),
    _service("SINGULARITY_(MOUNT_HOME|TEST_SANDBOX)", "has no effect: the trial container is made of the host's own programs"),
    _none("VM_GAHP_.*|VM_NETWORKING_MAC_PREFIX|XEN_(BRIDGE_)?SCRIPT", "has no effect: virtual machines are run without a GAHP"),
    _service("VM_MAX_MEMORY", "bounds nothing", "write VM_MEMORY"),
    _service("(?!SCHEDD_)[A-Z]+_DAEMON_HISTORY", "writes no history of the daemon"),
    _service("SUBMITTER_(ATTRS|EXPRS)", "puts nothing into the daemon's ad"),
    _service("((MAX|MAX_NUM)_)?(SHARED_PORT|ANNEX)_AUDIT_LOG", "writes no audit log"),
    _service("CONDOR_VIEW_.*|COLLECTOR_FORWARD_.*|(KEEP_)?POOL_HISTORY.*|UPDATE_VIEW_COLLECTOR_WITH_TCP", "forwards no ads and keeps no pool history"),
    _service("(MAX_)?JOB_ROUTER.*|MAX_JOB_MIRROR_UPDATE_LAG", "routes no job: there is no job router"),
    _service("(MAX_)?(GRIDMANAGER|C_GAHP|CGAHP|CONDORC|EC2|GCE|AZURE|ARC|BATCH|UNICORE|NORDUGRID)_.*|CONDOR_GAHP_WORKER", "has no effect: there is no grid universe"),
    _service("GRIDMANAGER|GAHP_.*|BLAHPD_LOCATION|CONDOR_GATEKEEPER|.*_GAHP", "has no effect: there is no grid universe"),
    _service("CRED(D|MON)_(HOST|WEB_PREFIX|CACHE_LOCALLY)", "has no effect: the schedd keeps the credentials of its users, and has no pages to fetch them"),
    _service("CREDMON_ALLOW_SPECIAL_CHAR_NAMES", "has no effect: a name behind an underscore is a handle, unless the whole is the name of a service"),
    _service("CREDMON_OAUTH_TOKEN_(MINIMUM|REFRESH)", "has no effect: tokens are renewed after half of their time"),
    _service("SEC_CREDENTIAL_REFRESH_INTERVAL", "stores no credential anew", off=("-1", "0")),
    _service("SEC_CREDENTIAL_(DIRECTORY(_KRB)?|PRODUCER|MONITOR.*)", "keeps no Kerberos credentials: tokens of OAuth2 alone"),
    _service("SEC_CREDENTIAL_(STORER|GETTOKEN_OPTS)|(VAULT|PELICAN|CLIENT)_CREDMON_.*|.+_PELICAN_.+", "gets no tokens of Vault or Pelican"),
    _service(".+_AUTHORIZATION_URL|.+_RETURN_URL_SUFFIX|.+_(DEFAULT|USER_DEFINE)_OPTIONS", "has no pages to fetch tokens: users store refresh tokens with condor_store_cred"),
    _service("CONDOR_CREDENTIAL_DIR", "has no effect"),
    _none("(MAX_)?CREDMON_(KRB|OAUTH)(_LOG)?|(MAX_)?CREDD_.*|CREDD|AUTO_INCLUDE_CREDD_IN_DAEMON_LIST|SEC_CREDENTIAL_MONITOR_OAUTH_LOG", "changes nothing: the schedd does its work"),
    _service("HAD(_.*)?|REPLICATION(_.*)?|TRANSFERER(_.*)?|HA_.*|MASTER_HA_LIST|MASTER_[A-Z]+_CONTROLLER|MAX_(HAD|REPLICATION|TRANSFERER)_LOG|STATE_FILE|NEGOTIATOR_STATE_FILE", "has no effect: there is one central manager"),
    _service("GANGLIA(?!_LIB).*|METRICD.*|PROMETHEUS_.*|MAX_(GANGLIAD|METRICD)_LOG|MONITOR_(COLLECTOR|MULTIPLE).*", "exports no metrics"),
    _service("ADSTASH_.*|PLACEMENTD.*", "has no effect: there is no such daemon"),
    _service("(HPC_)?ANNEX_.*", "has no effect: there is no annex"),
    _policy("DAGMAN_GENERATE_SUBDAG_SUBMITS", "has the runner refuse the DAG: it always writes the descriptions of sub-DAGs", "leave it out, or run HTCondor's own with -dagman PATH", off=_TRUE),
    _policy("DAGMAN_USE_OLD_FILE_PARSER", "has the runner refuse the DAG: there is one parser", "leave it out, or run HTCondor's own with -dagman PATH"),
    _policy("DAGMAN_SUBMIT_DELAY", "delays no submission", "write DAGMAN_MAX_SUBMITS_PER_INTERVAL", off=("0",)),
    _policy("DAGMAN_ABORT_DUPLICATES", "lets no second runner run a DAG beside the first", off=_TRUE),
    _policy("DAGMAN_RETRY_SUBMIT_FIRST", "has no effect: of nodes of one priority that which was refused is submitted first again", off=_TRUE),
    _policy("DAGMAN_ALLOW_EVENTS", "has no effect: entries of the nodes log that do not fit a node's state change nothing", off=()),
    _policy("DAGMAN_REMOVE_JOBS_AFTER_LIMIT_CHANGE", "removes no job: the limits of a DAG that runs do not change"),
    _policy("DAGMAN_WRITE_PARTIAL_RESCUE", "writes no whole rescue file, as in HTCondor: they are partial", off=_TRUE),
    _service("DAGMAN_CONFIG_FILE", "is read by no runner", "write CONFIG in the DAG file, or submit with -config", off=()),
    _service("DAGMAN_(VERBOSITY|DEBUG)", "has no effect: X.dagman.out has the lines that monitors read", off=()),
    _service("DAGMAN_REPORT_GRAPH_METRICS", "reports nothing", "see `slotwise dag graph`"),
    _service("DAGMAN_(PENDING_REPORT|PRINT_JOB_TABLE)_INTERVAL", "has no effect: X.dagman.out has no reports of nodes that wait", "see `slotwise dag status` and `slotwise dag why`", off=("0",)),
    _service("DAGMAN_CHECK_QUEUE_INTERVAL", "has no effect: a runner believes the nodes log, which the schedd writes", off=("0",)),
    _service("DAGMAN_METRICS_FILE_VERSION", "has no effect: it is 2", off=("2",)),
    _service("DAGMAN_LOG_ON_NFS_IS_ERROR", "refuses no log"),
    _service("DAGMAN_PRODUCE_JOB_CREDENTIALS", "has no effect: nodes use the credentials that are stored", off=_TRUE),
    _service("MAX_DAGMAN_LOG", "bounds no log: X.dagman.out grows", off=("0",)),
    _none("DAGMAN_USE_DIRECT_SUBMIT", "changes nothing: HTCondor's condor_dagman submits the jobs of nodes by a command here"),
    _none("DAGMAN_(ABORT_ON_SCARY_SUBMIT|AGGRESSIVE_SUBMIT|AVOID_SLASH_TMP|DEBUG_CACHE_(ENABLE|SIZE)|DEBUG_PARSE_TIMING|DISABLE_PORT|REMOVE_TEMP_SUBMIT_FILES|USE_SHARED_PORT)", "is for HTCondor's condor_dagman, which reads it itself"),
    _service("KBDD(_.*)?|MAX_KBDD_LOG", "has no effect: the startd watches the keyboard itself"),
    _service("STARTD_REBOOT_COMMAND", "runs no script"),
    _service("ENABLE_HTTP_PUBLIC_FILES|HTTP_PUBLIC_FILES_.*", "publishes no files"),
    _service("STARTD_EVENTLOG(_FORMAT|_MAX)?", "writes no log of events: StartLog has what becomes of slots", off=()),
    _service("TESTING_COLOR_FROM_JOB_AD", "puts no attributes of jobs into the ads of slots"),
    _service("OCU_SUPER_USERS", "makes nobody the owner of capacity units: there are none", off=()),
    _none("ALLOW_COMMON_FILES_ON_LVS|ALLOW_LVS_TO_BIND_MOUNT_COMMON_FILES", "changes nothing: jobs on volumes of their own get copies of common input files"),
    _none("SUBMIT_SYNTHESIZE_COMMON_INPUT_FILES", "changes nothing: transfer_common_input says which input files are common"),
    _service("STARTD_DIRECT_ATTACH_.*|DISABLE_DIRECT_ATTACH_IDENTITY_CHECK|STARTD_REHOME_.*", "has no effect: a startd offers its slots to the collectors of its pool, and lends none to a schedd", "set COLLECTOR_HOST to the pool of that schedd"),
    _service("STARTD_FACTORY_.*", "has no effect"),
    _service("GUIDANCE_.*", "has no effect: starters do not ask the access point what to do with a job that failed"),
    _none("DELEGATE_FULL_JOB_GSI_CREDENTIALS", "changes nothing: the proxy of a job goes with it as it is"),
    _service("DELEGATE_JOB_GSI_CREDENTIALS(_LIFETIME|_REFRESH)?", "delegates nothing: the proxy of a job goes with it as it is, for as long as it is valid, and a renewed one follows", "give jobs proxies that may be on execution points for as long as they are valid"),
    _service("MASTER_NEW_BINARY_.*|MASTER_CHECK_NEW_EXEC_INTERVAL", "restarts nothing: `slotwise restart` takes up a new version"),
    _service("SCHEDD_(COLLECT|EXPIRE)_STATS_.*", "publishes nothing more"),
    _service("INTERACTIVE_SUBMIT_.*", "has no effect"),
    _service("(SHADOW|PREEN)_CHECKPOINT_CLEANUP_TIMEOUT", "bounds nothing: the schedd deletes all checkpoints", "write SCHEDD_CHECKPOINT_CLEANUP_TIMEOUT"),
    _service("RUN_CLEANUP_PLUGINS_AS_OWNER", "changes nothing: programs that delete checkpoints always run as the job's account", off=("true",)),
    _service("LOG_TO_SYSLOG|EVENT_LOG_(USE_XML|FORMAT_OPTIONS|COUNT_EVENTS)|WANT_XML_LOG", "has no effect"),
    _service("SSH_TO_JOB_.*|CONDOR_SSH.*|SSHD(_ARGS)?|SSH_KEYGEN(_ARGS)?|SCP|SCHEDD_ENABLE_SSH_TO_JOB", "has no effect: `slotwise ssh-to-job` starts no sshd"),
    # ------------------------------------------------------------------------------------------------------- harmless
    _none("ABSENT_SUBMITTER_(LIFETIME|UPDATE_RATE)"),
    _none("ENCRYPT_EXECUTE_DIRECTORY_FILENAMES", "changes nothing: names of files are encrypted with their contents"),
    _none(
        "SEC_[A-Z_]+_(AUTHENTICATION|ENCRYPTION|INTEGRITY|NEGOTIATION)|SECURITY_MODEL|FIPS",
        "changes nothing: every call carries a token, and beyond this machine goes through TLS",
    ),
    _none(
        "SEC_.*|AUTH_SSL_.*|KERBEROS_.*|SCITOKENS_FILE|TRUST_(DOMAIN.*|LOCAL_UID_DOMAIN)|TOKENS_DATABASE|USER_MAPFILE"
        "|.*KEYRING.*|FS_.*|SSL_SKIP_HOST_CHECK|BOOTSTRAP_.*|DISABLE_AUTHENTICATION_IP_CHECK|ENCRYPT_SECRETS"
        "|USE_VOMS_ATTRIBUTES|SOFT_UID_DOMAIN|COLLECTOR_BOOTSTRAP_SSL_CERTIFICATE|HAVE_EXT_KRB5",
        "changes nothing: callers prove themselves by tokens, or by certificates that CERTIFICATE_MAPFILE maps",
    ),
    _none("ALLOW_(ADMIN_COMMANDS|COMMON_FILES_ON_LVS|TRANSFER_REMAP_TO_MKDIR|SCRIPTS_TO_RUN_AS_EXECUTABLES)"),
    # Programs and files of HTCondor's own daemons.
    _none("(MASTER|COLLECTOR|NEGOTIATOR|SCHEDD|STARTD|STARTER|SHADOW|DEFRAG|ROOSTER|LIBRARIAN|PREEN|PROCD|SHARED_PORT)(_LOCAL|_LIST|_FLAG)?"),
    _none(
        r".+_(ADDRESS_FILE|DAEMON_AD_FILE|DEBUG_WAIT|ARGS|LOCK|USERID|LOG_KEEP_OPEN"
        r"|MAX_FILE_DESCRIPTORS|TIMEOUT_MULTIPLIER|SUPER_ADDRESS_FILE|CONTROLLER)"
    ),
    _none("(MAX_|MAX_NUM_|TRUNC_)?(SHADOW|SHARED_PORT|PROCD|SCHED|MATCH|VM_GAHP)_LOG(_ON_OPEN)?"),
    _none(".+_(STATS|TUNING|TRANSFER_STATS)_LOG|MAX_(SHADOW|STARTER)_STATS_LOG|JOB_QUEUE_LOG"),
    _none(
        "(SHADOW|PROCD)_.*|SHARED_PORT_(?!(PORT|DEFAULT_ID|MAX_FILE_DESCRIPTORS|LOG)$).*|CCB_(?!(ADDRESS|OUTBOUND_.*|.*_STREAMING.*)$).*"
        "|AUTO_INCLUDE_.*|USE_PROCD|(DAGMAN|HAD|REPLICATION)_USE_SHARED_PORT"
    ),
    _none("PREEN_(COREFILES_PER_PROCESS|CHECKPOINT_.*|.+_COREFILES_TOTAL_DISK|DEBUG|LOG)"),
    _none("PREEN_(ARGS|INTERVAL)", "changes nothing: daemons remove their own files; cron can run `slotwise preen`"),
    _none("RESTART_PROCD_ON_ERROR|DAEMON_SOCKET_DIR|PLUGIN(S|_DIR)"),
    # Networks, files and timing that the transport here does otherwise.
    _none(
        "(ADVERTISE|PREFER)_.*IPV[46].*|IGNORE_.*PROTOCOL_PREFERENCE|NETWORK_(HOSTNAME|MAX_.*)"
        "|(IN|OUT)_(LOW|HIGH)PORT|TCP_(?!FORWARDING_HOST).*|UDP_.*|NO_DNS|DNS_CACHE_REFRESH|HOST_ALIAS|DEFAULT_DOMAIN_NAME|USE_COLLECTOR_HOST_CNAME"
        "|WANT_UDP_COMMAND_SOCKET|SOCKET_LISTEN_BACKLOG|ALWAYS_REUSEADDR|UPDATE_.*|NONBLOCKING_COLLECTOR_UPDATE|.*OUTBOUND_.*"
        "|MAX_(ACCEPTS|REAPS|TIMER_EVENTS|UDP_MSGS)_PER_CYCLE|MAX_TIME_SKIP|MAX_FILE_DESCRIPTORS|.*_SOCKET_(BUFSIZE|CACHE_SIZE)"
        "|(Q_)?QUERY_TIMEOUT|CLIENT_TIMEOUT|RECEIVE_MSGS_DURATION|TOOLS_ASSUME_FIREWALLS|PIPE_BUFFER_MAX|RECONNECT_BACKOFF_.*"
    ),
    _none(
        "COLLECTOR_(QUERY_WORKERS.*|STATS_SWEEP|UPDATE_INTERVAL|HOST_FOR_NEGOTIATOR|HOST_STRING|CLASS_HISTORY_SIZE"
        "|DAEMON_HISTORY_SIZE)|DEAD_COLLECTOR_.*|HANDLE_QUERY_IN_PROC_POLICY|CM_IP_ADDR"
    ),
    _none(
        "NEGOTIATOR_(HOST|MATCHLIST_CACHING|NUM_THREADS|PREFETCH_.*|READ_CONFIG_BEFORE_CYCLE|RESOURCE_REQUEST_LIST_SIZE"
        "|UPDATE_AFTER_CYCLE|USE_NONBLOCKING_STARTD_CONTACT)|USE_RESOURCE_REQUEST_COUNTS|ACCOUNTANT_(DATABASE_FILE|HOST)"
        "|ACCOUNTING_DOMAIN|MAX_ACCOUNTANT_DATABASE_SIZE|USERPRIO_USE_.*"
    ),
    _none(
        "SCHEDD_(ALLOW_LATE_MATERIALIZE|ASSUME_NEGOTIATOR_GONE|BACKUP_SPOOL|JOB_QUEUE_LOG_FLUSH_DELAY"
        "|NON_DURABLE_LATE_MATERIALIZE|QUERY_WORKERS|RESTART_REPORT|SEND_.*|SLOT_WEIGHT|USE_SLOT_WEIGHT"
        "|HOST|EXECUTE|INTERVAL_TIMESLICE|USES_STARTD_FOR_LOCAL_UNIVERSE)"
        "|LOCAL_UNIVERSE_.*|USE_CGROUPS_FOR_LOCAL_UNIVERSE"
        "|DEDICATED_SCHEDULER_(WAIT_FOR_SPOOLER|USE_SERIAL_CLAIMS)"
        "|QUEUE_CLEAN_INTERVAL|MAX_JOB_QUEUE_LOG_ROTATIONS|MAX_PENDING_STARTD_CONTACTS|STARTD_CONTACT_TIMEOUT|REQUEST_CLAIM_TIMEOUT"
        "|JOB_IS_FINISHED_.*|GLOBAL_JOB_ID_WITH_TIME|CHOWN_JOB_SPOOL_FILES|ALTERNATE_JOB_SPOOL"
        "|SYSTEM_VALID_SPOOL_FILES|SUBMIT_(SEND_RESCHEDULE|SKIP_FILECHECKS|GENERATE_CONDOR_C_.*|PUBLISH_.*)"
        "|VALID_COD_USERS|HISTORY_HELPER.*|CONDOR_Q_(SHOW_OLD_SUMMARY|USE_V3_PROTOCOL)"
    ),
    _none(
        "STARTD_(CLAIM_ID_FILE|SHOULD_WRITE_CLAIM_ID_FILE|CRON_NAME|HAS_BAD_UTMP|PRINT_ADS_.*|PUBLISH_.*|RECOMPUTE_DISK)"
        "|STARTER_(DIAGNOSTIC_.*|FIRST_CHILDALIVE_DELAY|LOG_NAME_APPEND|LOCAL_LOGGING"
        "|UPDATE_INTERVAL_.*)|SYSTEM_STARTD_(JOB|SLOT)_ATTRS|REAL_TIME_JOB_SUSPEND_UPDATES|PID_SNAPSHOT_INTERVAL|POLLING_PERIOD"
        "|MEMORY_USAGE_METRIC.*|CGROUP_ALL_DAEMONS|KEEP_OUTPUT_SANDBOX"
        "|ADVERTISE_PSLOT_ROLLUP_INFORMATION|BOINC_Universe|KEYBOARD_CPUS|SYSAPI_GET_LOADAVG"
        "|PARENT_CHECK_.*|DEFAULT_KILL_CHILDREN_ON_EXIT|DAEMON_CORE_KILL_ANY_PROCESS|LINUX_KERNEL_TUNING_SCRIPT|ENABLE_KERNEL_TUNING"
    ),
    _none(
        "CHECK_INPUT_FILE_TRANSFER|(RUN|LOG|REDIRECT)_FILETRANSFER_PLUGIN.*|FILETRANSFER_PLUGIN_.*|.*MULTIFILE.*PLUGINS|.+_TEST_URL|STASH_PLUGIN|SIGN_S3_URLS|MAX_REMAP_RECURSIONS"
        "|TRANSFER_IO_REPORT_.*|BYTES_REQUIRED_TO_QUEUE_FOR_TRANSFER|DEFAULT_IO_BUFFER_.*|ENABLE_USERLOG_LOCKING|ALWAYS_CLOSE_USERLOG"
    ),
    _none("GANGLIA_LIB.*|CRED_STORE_DIR|JAVA.*|MPI.*|OPENMPI_.*|PARROT|VANILLA|STANDARD|VM|APPEND_(RANK|REQ)_STANDARD|DEFAULT_RANK_STANDARD"),
    _none(
        "CONDOR_(FSYNC|BUILD_PLATFORM|VERSION|PLATFORM)",
    ),
    _none(
        "SMTP_SERVER",
        "has no effect, as in HTCondor where it is not run on Windows: see SLOTWISE_SMTP_SERVER",
    ),
    _none(
        ".*WINDOWS.*|.*WINREG|.*DOTNET|DOT_NET_VERSIONS|USE_VISIBLE_DESKTOP|REUSE_CONDOR_RUN_ACCOUNT|DYNAMIC_RUN_ACCOUNT_.*|OPEN_VERB_FOR_.*"
    ),
    _none(
        "ABORT_ON_EXCEPTION|EXCEPT_ON_ERROR|CORE_FILE_NAME|DROP_CORE_ON_RECONFIG|.*LOCK(S|ING)?_.*|.*_LOCK_ERRORS"
        "|.*_LOCKING|LOCK_.*|TOUCH_LOG_INTERVAL|LOG_ON_NFS_IS_ERROR|USE_(NFS|CLONE_TO_CREATE_PROCESSES|PROCESS_GROUPS|SCRIPT_TO_CREATE_CONFIG)"
        "|RUNTIME_CONFIG_ADMIN|PASSWD_CACHE_REFRESH|MAX_PID_COLLISION_RETRY|MASTER_(NAME|INSTANCE_LOCK)"
        "|START_(DAEMONS|MASTER)|DC_DAEMON_LIST|TEMP_DIR|TMP_DIR|ENABLE_CLASSAD_CACHING|ENABLE_DEPRECATION_WARNINGS|CLASSAD_LOG_STRICT_PARSING"
        "|STRICT_CLASSAD_EVALUATION|DCSTATISTICS_TIMESPANS|STATISTICS_WINDOW_.*|WINDOWED_STAT_WIDTH"
    ),
    # Macros, and facts that HTCondor works out.
    _none(
        "ARCH|OPSYS.*|HOSTNAME|FULL_HOSTNAME|LOCALNAME|SUBSYSTEM|Is[A-Za-z]+|PYTHON3_.*|RELEASE_DIR|SBIN|LIB|INCLUDE|ETC|SHARE"
        "|MINUTE|HOUR|[A-Za-z]*Timer|BackgroundLoad|HighLoad|(Big|Medium|Small)Job|(Start|Continue)IdleTime|Max(Suspend|Vacate)Time"
        "|(CATALOG|SUM_OF).*|GPU_(MONITOR|DISCOVERY_EXTRA)",
        "has an effect only where a value refers to it",
    ),
)  # fmt: skip


@lru_cache(maxsize=4096)
def rule_of(name: str) -> Rule | None:
    """The rule for a knob that is not honoured; ``name`` without a prefix such as ``STARTD.``."""
    return next((rule for rule, pattern in _patterns() if pattern.fullmatch(name)), None)


@lru_cache(maxsize=1)
def promises() -> tuple[str, ...]:
    """The knobs that prevent a start unless they are honoured, including the lists of hosts and users of each level."""
    severe = [rule.names for rule in RULES if rule.effect in (Effect.ISOLATION, Effect.REFUSAL)]
    plain = [name for names in severe for name in names.split("|") if re.fullmatch("[A-Z_]+", name)]
    access = [f"{verb}_{level}" for verb in ("ALLOW", "DENY", "HOSTALLOW", "HOSTDENY") for level in _LEVEL_NAMES]
    return (*plain, *access)


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[Rule, re.Pattern[str]], ...]:
    return tuple((rule, re.compile(rule.names, re.IGNORECASE)) for rule in RULES)
