"""The starter's knobs, read once per configuration; what depends on job and slot is evaluated per job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

import slotwise
from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config
from slotwise.config.slot_accounts import slot_users
from slotwise.daemon.accounts import minimum_uid
from slotwise.errors import AdSyntaxError, ConfigError, SlotwiseError, UsageError
from slotwise.execution.arguments import environment_either
from slotwise.execution.cgroup.plan import MEMORY_POLICIES, CgroupRules
from slotwise.execution.environment import EnvironmentSettings, inherited_part, template_fault
from slotwise.execution.hook_rules import HOOKS, HookRules
from slotwise.home import PoolHome
from slotwise.model.job_events import DateForm
from slotwise.model.ownership import LocalDomains
from slotwise.model.words import truth
from slotwise.starter.enforcement.accounts import UserRules, account_problems
from slotwise.starter.enforcement.affinity import CoreRules, core_numbers
from slotwise.starter.io_proxy.rules import ChirpRules
from slotwise.starter.job.ads import evaluate
from slotwise.starter.job.java import JavaRules
from slotwise.starter.runtimes.settings import RuntimeSettings, read_runtimes

#: MachineMaxVacateTime when it is not set, seconds.
DEFAULT_VACATE_S = 600


class StarterSettings(Struct, frozen=True):
    """Everything the configuration says to the starter. Times in seconds."""

    execute: Path
    #: SLOTWISE_CONTROL_DIR: where the starter's own files go; empty: memory.
    control: str = ""
    #: Further directories for runs (SLOT<N>_EXECUTE).
    other_executes: tuple[Path, ...] = ()
    nested: bool = True
    #: FORBID_HARDLINK_MAPPING.
    copies_common: bool = False
    permissions: str = "user"
    initial_update_s: float = 8.0
    update_s: float = 300.0
    startd_update_s: float = 20.0
    poll_s: float = 5.0
    #: USE_PSS: ProportionalSetSizeKb is measured.
    use_pss: bool = False
    vacate_s: int = DEFAULT_VACATE_S
    #: How often what could not be removed is tried again (0: never), and whether always then.
    cleanup_interval_s: float = 62
    cleanup_eager: bool = False
    always_hold_on_oom: bool = True
    base_cgroup: str = "htcondor"
    cgroup_version: str = "auto"
    cgroup_without_root: bool = False
    cgroup: CgroupRules = field(default_factory=CgroupRules)
    hard_memory: ExprTree | None = None
    low_memory: ExprTree | None = None
    renice: ExprTree | None = None
    cores: CoreRules = field(default_factory=CoreRules)
    mounts: str = "/tmp,/var/tmp"
    mounts_expression: ExprTree | None = None
    #: PER_JOB_NAMESPACES: jobs have private mounts at all.
    private_mounts: bool = True
    pid_namespace: bool = False
    private_shm: bool = True
    private_ipc: bool = True
    users: UserRules = field(default_factory=UserRules)
    #: STARTER_ALLOW_RUNAS_OWNER, over the machine's ad (MY) and the job's (TARGET); None: no job may.
    run_as_owner: ExprTree | None = None
    tracking_gids: tuple[int, int] = (0, 0)
    environment: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    wrapper: str = ""
    java: JavaRules = field(default_factory=JavaRules)
    address_space_mib: ExprTree | None = None
    file_system_domain: str = ""
    umask: int = 0o022
    #: DEFAULT_USERLOG_FORMAT_OPTIONS, for the logs of fetched work.
    date_form: DateForm = field(default_factory=DateForm)
    chirp: ChirpRules = field(default_factory=ChirpRules)
    hooks: HookRules = field(default_factory=HookRules)
    #: Whether a job may be visited by a shell (ENABLE_SSH_TO_JOB).
    visits: ExprTree | None = None
    #: FILETRANSFER_PLUGINS, none with ENABLE_URL_TRANSFERS false.
    plugins: tuple[str, ...] = ()
    #: MAX_FILE_TRANSFER_PLUGIN_LIFETIME, and STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS over machine and job.
    plugin_lifetime_s: float = 72000.0
    disables_jobs_plugins: ExprTree | None = None
    #: FILE_TRANSFER_STATS_LOG: what plugins report of files goes there; empty: nowhere.
    transfer_stats_log: str = ""
    #: STARTD_RESOURCE_PREFIX: how names of slots begin.
    slot_prefix: str = "slot"
    #: STARTER_HIDE_GPU_DEVICES: jobs cannot open GPUs of other slots.
    hide_gpus: bool = True
    #: USE_GID_PROCESS_TRACKING, whether or not there are groups for it.
    gid_tracking: bool = False
    #: Settings that cannot be honored, in words.
    misread: tuple[str, ...] = ()
    enforce_disk: bool = False
    volumes: VolumeSettings = field(default_factory=lambda: VolumeSettings())
    encryption: EncryptionSettings = field(default_factory=lambda: EncryptionSettings())
    runtimes: RuntimeSettings = field(default_factory=RuntimeSettings)

    def number(self, expression: ExprTree | None, machine: ClassAd, job: ClassAd) -> int | None:
        """A whole number from an expression over machine and job; None if it gives none."""
        if expression is None:
            return None
        value = evaluate(expression, machine, job)
        return int(value) if isinstance(value, int | float) else None

    def lets_run_as_owner(self, machine: ClassAd, job: ClassAd) -> bool | None:
        """Whether the job may run as its owner; None (it may not) when the expression is neither true nor false."""
        value = evaluate(self.run_as_owner, machine, job) if self.run_as_owner is not None else False
        return bool(value) if isinstance(value, bool | int | float) else None

    def mount_targets(self, machine: ClassAd, job: ClassAd) -> tuple[str, ...]:
        """The directories that are private to a job (MOUNT_UNDER_SCRATCH, a list or an expression giving one).

        :raises ConfigError: when the expression gives no text: the job was promised a privacy that nobody knows.
        """
        if not self.private_mounts:
            return ()
        words = self.mounts
        if self.mounts_expression is not None:
            value = evaluate(self.mounts_expression, machine, job)
            if not isinstance(value, str):
                raise ConfigError("MOUNT_UNDER_SCRATCH gives no text for this job", hint="see MOUNT_UNDER_SCRATCH")
            words = value
        return _paths(words)

    @property
    def fixed_mounts(self) -> tuple[str, ...]:
        """What is private to every job: a list in MOUNT_UNDER_SCRATCH, not an expression."""
        return _paths(self.mounts) if self.private_mounts and self.mounts_expression is None else ()


class EncryptionSettings(Struct, frozen=True):
    """Whose scratch directories are encrypted: every job's (ENCRYPT_EXECUTE_DIRECTORY), or those of jobs that ask
    for it, unless DISABLE_EXECUTE_DIRECTORY_ENCRYPTION forbids it."""

    always: bool = False
    forbidden: bool = False


class VolumeSettings(Struct, frozen=True):
    """Scratch file systems (STARTD_ENFORCE_DISK_LIMITS and LVM_*). Sizes in MiB."""

    volume_group: str = ""
    thin_pool: str = ""
    thin: bool = False
    backing_file: str = ""
    backing_mib: int = 10240
    thin_extra_mib: int = 2000
    thick_margin: float = 0.98
    #: SLOTWISE_SCRATCH_VOLUMES: auto, lvm, loop or none.
    wanted: str = "auto"
    #: LVM_HIDE_MOUNT: volumes are seen by their job and the starter only.
    hide: bool = True
    #: LVM_CLEANUP_FAILURE_MAKES_BROKEN_SLOT.
    broken_by_leftovers: bool = True


def _paths(words: str) -> tuple[str, ...]:
    return tuple(path for path in (word.strip() for word in words.split(",")) if path.startswith("/"))


def read_settings(config: Config, home: PoolHome, env: Mapping[str, str]) -> StarterSettings:
    """Read the knobs. A value that cannot be used falls back to its default; the loader has warned about it."""
    mounts = config.get("MOUNT_UNDER_SCRATCH") or ""  # an empty one means none, not the default
    execute = Path(config.get("EXECUTE") or home.execute)
    return StarterSettings(
        execute=execute,
        control=config.get_text("SLOTWISE_CONTROL_DIR"),
        other_executes=_other_executes(config, execute),
        nested=config.get_bool("STARTER_NESTED_SCRATCH"),
        copies_common=config.get_bool("FORBID_HARDLINK_MAPPING"),
        permissions=config.get_text("JOB_EXECDIR_PERMISSIONS").lower(),
        initial_update_s=config.get_float("STARTER_INITIAL_UPDATE_INTERVAL"),
        update_s=config.get_float("STARTER_UPDATE_INTERVAL"),
        startd_update_s=config.get_float("SLOTWISE_JOB_USAGE_INTERVAL"),
        poll_s=max(0.1, config.get_float("CGROUP_POLLING_INTERVAL")),
        use_pss=config.get_bool("USE_PSS"),
        vacate_s=config.get_int("MachineMaxVacateTime"),
        cleanup_interval_s=config.get_int("STARTD_CLEANUP_REMINDER_TIMER_INTERVAL"),
        cleanup_eager=config.get_bool("AGGRESSIVE_CLEANUP_REMINDER"),
        always_hold_on_oom=config.get_bool("STARTER_ALWAYS_HOLD_ON_OOM"),
        base_cgroup=config.get_str("BASE_CGROUP"),
        cgroup_version=config.get_text("SLOTWISE_CGROUP_VERSION").lower(),
        cgroup_without_root=config.get_bool("CREATE_CGROUP_WITHOUT_ROOT"),
        cgroup=_cgroup_rules(config),
        slot_prefix=config.get_text("STARTD_RESOURCE_PREFIX"),
        misread=_misread(config),
        hide_gpus=config.get_bool("STARTER_HIDE_GPU_DEVICES"),
        gid_tracking=config.get_bool("USE_GID_PROCESS_TRACKING"),
        hard_memory=_expression(config, "CGROUP_HARD_MEMORY_LIMIT_EXPR"),
        low_memory=_expression(config, "CGROUP_LOW_MEMORY_LIMIT"),
        renice=_expression(config, "JOB_RENICE_INCREMENT"),
        cores=_core_rules(config),
        mounts=mounts.strip().strip('"'),
        mounts_expression=_mounts_expression(mounts),
        private_mounts=config.get_bool("PER_JOB_NAMESPACES"),
        pid_namespace=config.get_bool("USE_PID_NAMESPACES"),
        private_shm=config.get_bool("MOUNT_PRIVATE_DEV_SHM") and config.get_bool("PER_JOB_NAMESPACES"),
        private_ipc=config.get_bool("SLOTWISE_PRIVATE_IPC"),
        users=_user_rules(config),
        run_as_owner=_expression(config, "STARTER_ALLOW_RUNAS_OWNER"),
        tracking_gids=_tracking(config),
        environment=_environment(config, env),
        wrapper=config.get_str("USER_JOB_WRAPPER"),
        java=JavaRules.of(config),
        address_space_mib=_expression(config, "STARTER_RLIMIT_AS"),
        file_system_domain=config.get_str("FILESYSTEM_DOMAIN"),
        enforce_disk=config.get_bool("STARTD_ENFORCE_DISK_LIMITS"),
        volumes=_volumes(config),
        encryption=_encryption(config),
        runtimes=read_runtimes(config),
        date_form=DateForm.parse(config.get_text("DEFAULT_USERLOG_FORMAT_OPTIONS")),
        chirp=_chirp(config),
        hooks=_hooks(config),
        visits=_expression(config, "ENABLE_SSH_TO_JOB"),
        plugins=tuple(config.get_list("FILETRANSFER_PLUGINS")) if config.get_bool("ENABLE_URL_TRANSFERS") else (),
        plugin_lifetime_s=config.get_int("MAX_FILE_TRANSFER_PLUGIN_LIFETIME"),
        disables_jobs_plugins=_expression(config, "STARTER_DISABLE_USER_SUPPLIED_TRANSFER_PLUGINS"),
        transfer_stats_log=config.get_str("FILE_TRANSFER_STATS_LOG").strip(),
    )


def for_slot(settings: StarterSettings, told: Mapping[str, object]) -> StarterSettings:
    """The settings with the knobs that the startd gives one slot. An expression that cannot be read changes nothing."""

    def words(name: str) -> str | None:
        value = told.get(name)
        return value.strip() if isinstance(value, str) else None

    policy, swap, mounts = words("CGROUP_MEMORY_LIMIT_POLICY"), words("DISABLE_SWAP_FOR_JOB"), words(_MOUNTS)
    rules = settings.cgroup
    if policy is not None:
        rules = replace(rules, memory_policy=_policy(policy))
    if swap is not None:
        rules = replace(rules, disable_swap=truth(swap) is True)
    changed = replace(settings, cgroup=rules)
    if mounts is not None:
        changed = replace(changed, mounts=mounts.strip('"'), mounts_expression=_mounts_expression(mounts))
    if (limit := _slot_expression(words("CGROUP_HARD_MEMORY_LIMIT_EXPR"))) is not None:
        changed = replace(changed, hard_memory=limit)
    if (renice := _slot_expression(words("JOB_RENICE_INCREMENT"))) is not None:
        changed = replace(changed, renice=renice)
    return changed


def _slot_expression(text: str | None) -> ExprTree | None:
    """A slot's own knob as an expression; None when it has none, or one that cannot be read."""
    with contextlib.suppress(AdSyntaxError, ValueError):
        return ExprTree(text, old=True) if text else None
    return None


#: Knobs that the startd may give per slot.
_MOUNTS = "MOUNT_UNDER_SCRATCH"
SLOT_KNOBS = (
    "CGROUP_MEMORY_LIMIT_POLICY",
    "CGROUP_HARD_MEMORY_LIMIT_EXPR",
    "DISABLE_SWAP_FOR_JOB",
    "JOB_RENICE_INCREMENT",
    _MOUNTS,
)


def _other_executes(config: Config, execute: Path) -> tuple[Path, ...]:
    forms = [*config.members("SLOT<N>_EXECUTE"), *config.members("SLOT_TYPE_<N>_EXECUTE")]
    found = [Path(path) for name, _number in forms if (path := config.get_str(name).strip())]
    return tuple(path for path in dict.fromkeys(found) if path != execute)


def _expression(config: Config, name: str) -> ExprTree | None:
    try:
        return config.get_expr(name)
    except SlotwiseError:
        return None


def _mounts_expression(mounts: str) -> ExprTree | None:
    """MOUNT_UNDER_SCRATCH as an expression, when it is one; a bare list of paths is none."""
    bare = mounts.strip()
    if not bare or bare.startswith("/") or (bare[0] == bare[-1] == '"' and '"' not in bare[1:-1]):
        return None
    try:
        return ExprTree(bare, old=True)
    except (AdSyntaxError, ValueError):
        return None


def _policy(text: str) -> str:
    """CGROUP_MEMORY_LIMIT_POLICY; a word that is none of its values must not mean no limit."""
    word = text.strip().strip('"').lower()
    return word if word in MEMORY_POLICIES else "hard"


def _misread(config: Config) -> tuple[str, ...]:
    found = []
    policy = config.get_text("CGROUP_MEMORY_LIMIT_POLICY").strip('"')
    if policy.lower() not in MEMORY_POLICIES:
        found.append(f"CGROUP_MEMORY_LIMIT_POLICY {policy} is none of {', '.join(MEMORY_POLICIES)}: hard holds")
    if policy.lower() == "custom" and _expression(config, "CGROUP_HARD_MEMORY_LIMIT_EXPR") is None:
        found.append("memory is not limited: the policy is custom, and CGROUP_HARD_MEMORY_LIMIT_EXPR has no expression")
    try:
        environment_either(config.get_str("STARTER_JOB_ENVIRONMENT"))
    except UsageError as error:
        found.append(f"STARTER_JOB_ENVIRONMENT is left out: {error}")
    for name, _slot in config.members("SLOT<N>_CPU_AFFINITY"):
        try:
            core_numbers(config.get_str(name))
        except ValueError:
            found.append(f"{name} is not a list of core numbers: jobs of that slot are bound to the core of its number")
    for tag, template in _by_resource(config, "ENVIRONMENT_FOR_Assigned<RESOURCE>").items():
        if fault := template_fault(template):
            found.append(
                f"ENVIRONMENT_FOR_Assigned{'GPUs' if tag == 'gpus' else tag} is not used from there on: {fault}"
            )
    return (*found, *account_problems(_user_rules(config), is_root=is_root()))


def _cgroup_rules(config: Config) -> CgroupRules:
    most = config.get_int("SLOTWISE_JOB_MAX_PROCESSES")
    return CgroupRules(
        memory_policy=_policy(config.get_text("CGROUP_MEMORY_LIMIT_POLICY")),
        disable_swap=config.get_bool("DISABLE_SWAP_FOR_JOB"),
        max_processes=most,
        use_peak=config.get_bool("CGROUP_USE_PEAK_MEMORY"),
        ignore_cache=config.get_bool("CGROUP_IGNORE_CACHE_MEMORY"),
    )


def _core_rules(config: Config) -> CoreRules:
    """ASSIGN_CPU_AFFINITY false is as good as none; :func:`_misread` tells of a list that is none."""
    assign = _expression(config, "ASSIGN_CPU_AFFINITY")
    if assign is not None and assign.eval(ClassAd(), None) is False:
        assign = None
    by_slot: dict[int, tuple[int, ...]] = {}
    for name, slot in config.members("SLOT<N>_CPU_AFFINITY"):
        with contextlib.suppress(ValueError):
            by_slot[int(slot)] = core_numbers(config.get_str(name))
    return CoreRules(assign, config.get_bool("ENFORCE_CPU_AFFINITY"), by_slot)


def _user_rules(config: Config) -> UserRules:
    return UserRules(
        domains=LocalDomains.of(config.get_str("UID_DOMAIN"), config.get_text("TRUST_UID_DOMAIN")),
        slot_users={slot: account for _, slot, account in slot_users(config)},
        dedicated=config.get_str("DEDICATED_EXECUTE_ACCOUNT_REGEXP"),
        least_uid=minimum_uid(config),
    )


def _tracking(config: Config) -> tuple[int, int]:
    if not config.get_bool("USE_GID_PROCESS_TRACKING"):
        return (0, 0)
    return (config.get_int("MIN_TRACKING_GID"), config.get_int("MAX_TRACKING_GID"))


def _environment(config: Config, env: Mapping[str, str]) -> EnvironmentSettings:
    try:
        extra = environment_either(config.get_str("STARTER_JOB_ENVIRONMENT"))
    except UsageError:
        extra = {}
    low, high = config.get_int("LOWPORT"), config.get_int("HIGHPORT")
    return EnvironmentSettings(
        inherited=inherited_part(config.get("JOB_INHERITS_STARTER_ENVIRONMENT"), env),
        extra=extra,
        thread_variables=tuple(config.get_list("STARTER_NUM_THREADS_ENV_VARS")),
        sets_home=config.get_bool("STARTER_SETS_HOME_ENV"),
        sets_nvidia=config.get_bool("AUTO_SET_NVIDIA_VISIBLE_DEVICES"),
        assigned=_by_resource(config, "ENVIRONMENT_FOR_Assigned<RESOURCE>"),
        unassigned=_by_resource(config, "ENVIRONMENT_VALUE_FOR_UnAssigned<RESOURCE>"),
        bin_directory=config.get_str("BIN"),
        node_commands=tuple(str(Path(slotwise.__file__).parent / name) for name in ("libexec", "condor_names")),
        ports=(low, high) if low and high else None,
    )


def _by_resource(config: Config, family: str) -> dict[str, str]:
    """A family's values by resource in lower case; GPUs have defaults."""
    names = [(family.replace("<RESOURCE>", "GPUs"), "GPUs"), *config.members(family)]
    return {resource.lower(): config.get_str(name) for name, resource in names}


def _encryption(config: Config) -> EncryptionSettings:
    forbidden = config.get_bool("DISABLE_EXECUTE_DIRECTORY_ENCRYPTION")
    return EncryptionSettings(config.get_bool("ENCRYPT_EXECUTE_DIRECTORY") and not forbidden, forbidden)


def _volumes(config: Config) -> VolumeSettings:
    return VolumeSettings(
        volume_group=config.get_str("LVM_VOLUME_GROUP_NAME"),
        thin_pool=config.get_str("LVM_THINPOOL_NAME"),
        thin=config.get_bool("LVM_USE_THIN_PROVISIONING"),
        backing_file=config.get_str("LVM_BACKING_FILE"),
        backing_mib=config.get_int("LVM_BACKING_FILE_SIZE_MB"),
        thin_extra_mib=config.get_int("LVM_THIN_LV_EXTRA_SIZE_MB"),
        thick_margin=config.get_float("LVM_THICK_LV_MARGIN"),
        wanted=config.get_text("SLOTWISE_SCRATCH_VOLUMES").lower(),
        hide=truth(config.get_text("LVM_HIDE_MOUNT")) is not False,
        broken_by_leftovers=config.get_bool("LVM_CLEANUP_FAILURE_MAKES_BROKEN_SLOT"),
    )


def _chirp(config: Config) -> ChirpRules:
    enabled = config.get_bool("ENABLE_CHIRP")
    return ChirpRules(
        files=enabled and config.get_bool("ENABLE_CHIRP_IO"),
        updates=enabled and config.get_bool("ENABLE_CHIRP_UPDATES"),
        delayed=enabled and config.get_bool("ENABLE_CHIRP_DELAYED"),
        prefixes=tuple(config.get_list("CHIRP_DELAYED_UPDATE_PREFIX")),
        most=config.get_int("CHIRP_DELAYED_UPDATE_MAX_ATTRS"),
    )


def _hooks(config: Config) -> HookRules:
    programs: dict[str, str] = {}
    timeouts: dict[str, float] = {}
    arguments: dict[str, str] = {}
    for hook in HOOKS:
        for name, keyword in config.members(f"<KEYWORD>_HOOK_{hook}"):
            if path := config.get_str(name).strip():
                programs[f"{keyword.upper()}_HOOK_{hook}"] = path
                timeouts[keyword.upper()] = config.get_float(f"{keyword}_HOOK_JOB_EXIT_TIMEOUT")
                arguments[keyword.upper()] = config.get_str(f"{keyword}_HOOK_PREPARE_JOB_ARGS")
    return HookRules(
        override=config.get_str("STARTER_JOB_HOOK_KEYWORD"),
        default=config.get_str("STARTER_DEFAULT_JOB_HOOK_KEYWORD"),
        programs=programs,
        exit_timeouts_s=timeouts,
        prepare_arguments=arguments,
    )


def is_root() -> bool:
    """True when the starter may change users."""
    return os.geteuid() == 0
