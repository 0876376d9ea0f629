"""Reads the schedd's knobs into the settings of its parts."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, field

import slotwise
from slotwise.classad import ExprTree, new_syntax
from slotwise.config import Config
from slotwise.config.view import DEFAULT
from slotwise.daemon.accounts import minimum_uid, named, own_account
from slotwise.daemon.further_attributes import further_attributes
from slotwise.errors import ConfigError
from slotwise.execution.hook_rules import HookRules
from slotwise.mail.settings import MailSettings
from slotwise.model.job_events import DateForm
from slotwise.model.ownership import LocalDomains
from slotwise.release import CONDOR_VERSION, condor_platform
from slotwise.schedd.claims.settings import ClaimSettings
from slotwise.schedd.credentials.settings import CredentialSettings
from slotwise.schedd.history.daemon_history import DaemonHistorySettings
from slotwise.schedd.history.epochs import RunHistorySettings
from slotwise.schedd.history.history_files import ExportSettings
from slotwise.schedd.jobs import dags
from slotwise.schedd.jobs.autocluster import JOB_ID, Autoclusters
from slotwise.schedd.jobs.from_ad import PROJECT
from slotwise.schedd.jobs.protected_attrs import AttributeLocks
from slotwise.schedd.jobs.round_attrs import DEFAULT_STEPS, ROUNDED, is_step
from slotwise.schedd.jobs.values import Changes
from slotwise.schedd.local.keeper_spec import LocalLimits
from slotwise.schedd.local.settings import LocalSettings
from slotwise.schedd.local.start_rules import StartRules
from slotwise.schedd.policy.cool_down import CoolDown
from slotwise.schedd.policy.expressions import SystemPolicy
from slotwise.schedd.policy.start import StartPolicy
from slotwise.schedd.publish.statistics import StatisticsSettings
from slotwise.schedd.shadow.prepare_hooks import read_rules
from slotwise.schedd.submission.rules import SubmitRules
from slotwise.schedd.submission.settings import AdmissionSettings
from slotwise.schedd.transfer.checkpoint_cleanup import CleanupSettings
from slotwise.schedd.transfer.disk_throttle import DiskThrottleSettings, parse_horizon, parse_limits
from slotwise.schedd.userlog.global_log import GlobalLogSettings
from slotwise.schedd.users.superusers import SuperUsers


class Settings(Struct, frozen=True):
    """The settings of a schedd."""

    name: str
    host: str
    uid_domain: str
    file_system_domain: str
    synchronous: str = "FULL"
    history_days: int = 0
    fallback_account: str = "nobody"
    #: SLOTWISE_USERLOG_PATIENCE: how long events wait for a log that cannot be written, seconds; 0: for ever.
    userlog_patience_s: float = 0.0
    #: ENABLE_USERLOG_FSYNC: event logs are flushed as they are written.
    userlog_flushes: bool = False
    #: SLOTWISE_OUTPUT_FSYNC: outputs are flushed before the end of their run is acknowledged.
    output_flushes: bool = True
    superusers: SuperUsers = field(default_factory=SuperUsers)
    trusted_domains: str = ""
    least_uid: int = 1000
    #: The shadow's hook: <KEYWORD>_HOOK_SHADOW_PREPARE_JOB.
    hooks: HookRules = field(default_factory=HookRules)
    #: How unwanted checkpoints at a checkpoint_destination are deleted, and how many are kept besides the last.
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    extra_checkpoints: int = 1
    shares_common: bool = True
    keep_common_s: int = 300
    on_demand: bool = True
    schedd_interval_s: float = 300.0
    alive_interval_s: int = 300
    want_leftovers: bool = False
    jobs_running_most: int = 10_000
    start_vanilla: StartPolicy = StartPolicy(None)
    local: LocalSettings = field(default_factory=lambda: LocalSettings(Path("local_univ_execute")))
    start_count: int = 1
    start_delay_s: float = 0.0
    next_start_delay_most_s: float = 600.0
    dedicated_fifo: bool = True
    unused_claim_s: int = 600
    refused_match_s: float = 20.0
    #: SYSTEM_ON_VACATE_COOL_DOWN and SYSTEM_COOLDOWN_DURATION.
    vacate_cool_down: CoolDown = field(default_factory=CoolDown)
    stop_count: int = 1
    stop_delay_s: float = 0.0
    now_vacate_s: float = 20.0
    background_action_jobs: int = 10_000
    spool_mode: int = 0o700
    #: MAX_CONCURRENT_UPLOADS and MAX_CONCURRENT_UPLOADS_PER_USER; 0: no limit.
    uploads_most: int = 100
    downloads_most: int = 100
    uploads_per_user_most: int = 20
    disk_throttle: DiskThrottleSettings | None = None
    transfer_queue_user: ExprTree | None = None
    jobs_most: int = (1 << 31) - 1
    jobs_per_owner_most: int = 100_000
    jobs_per_submission_most: int = 20_000
    #: The limits on bytes of submissions in flight, for one user and for all; 0: no limit.
    intake_most: tuple[int, int] = (256 << 20, 1024 << 20)
    periodic_interval_s: float = 60.0
    periodic_timeslice: float = 0.01
    proxy_interval_s: float = 600.0
    periodic_interval_most_s: float = 1200.0
    machine_attrs: tuple[str, ...] = ("Cpus", "SlotWeight")
    machine_attrs_length: int = 1
    significant: tuple[str, ...] = ()
    significant_added: tuple[str, ...] = ()
    significant_removed: tuple[str, ...] = ()
    locks: AttributeLocks = field(default_factory=AttributeLocks)
    transfer_limits_mib: tuple[float, float] = (-1, -1)
    event_log: GlobalLogSettings | None = None
    #: EVENT_LOG_JOB_AD_INFORMATION_ATTRS.
    event_log_attrs: tuple[str, ...] = ()
    run_history: RunHistorySettings = field(default_factory=RunHistorySettings)
    statistics: StatisticsSettings = field(default_factory=StatisticsSettings)
    daemon_history: DaemonHistorySettings = field(default_factory=DaemonHistorySettings)
    history: ExportSettings = field(default_factory=ExportSettings)
    mail: MailSettings = field(default_factory=MailSettings)
    date_form: DateForm = field(default_factory=DateForm)
    system: SystemPolicy = field(default_factory=SystemPolicy)
    rounding: dict[str, str] = field(default_factory=lambda: dict(DEFAULT_STEPS))
    rules: SubmitRules = field(default_factory=SubmitRules)
    credentials: CredentialSettings = field(default_factory=CredentialSettings)
    known_users_only: bool = False
    use_job_sets: bool = False
    #: PERSISTENT_PROJECT_RECORDS.
    project_records: bool = False
    #: SCHEDD_ATTRS: further attributes in the ads of the schedd and its submitters.
    advertised: Changes = field(default_factory=dict)

    def for_claiming(self, address: str) -> ClaimSettings:
        """What claiming takes. ``address``: where the schedd answers."""
        return ClaimSettings(
            schedd_name=self.name,
            address=address,
            alive_interval_s=self.alive_interval_s,
            want_leftovers=self.want_leftovers,
            machine_attrs=self.machine_attrs,
            machine_attrs_length=self.machine_attrs_length,
            jobs_running_most=self.jobs_running_most,
            start_vanilla=self.start_vanilla,
            start_count=self.start_count,
            start_delay_s=self.start_delay_s,
            next_start_delay_most_s=self.next_start_delay_most_s,
            dedicated_fifo=self.dedicated_fifo,
            unused_claim_s=self.unused_claim_s,
            fallback_account=self.fallback_account,
            refused_match_s=self.refused_match_s,
            cool_down=self.vacate_cool_down,
        )

    def for_admission(self) -> AdmissionSettings:
        """What submissions are checked against."""
        return AdmissionSettings(
            schedd_name=self.name,
            domains=LocalDomains.of(self.uid_domain, self.trusted_domains),
            version=CONDOR_VERSION,
            platform=condor_platform(),
            jobs_most=self.jobs_most,
            jobs_per_owner_most=self.jobs_per_owner_most,
            jobs_per_submission_most=self.jobs_per_submission_most,
            fallback_account=self.fallback_account,
            least_uid=self.least_uid,
            superusers=self.superusers,
            rules=self.rules,
            locks=self.locks,
            rounding=self.rounding,
        )

    def new_autoclusters(self) -> Autoclusters:
        """Empty autoclusters, by the configured significant attributes and those that START_VANILLA_UNIVERSE reads."""
        added = [*self.significant_added]
        if self.project_records:
            added.append(PROJECT)  # jobs of one autocluster have the same limits
        if self.start_vanilla.expression is not None:
            references = self.start_vanilla.expression.references()
            added += [*references.target, *references.bare]
            if references.unbounded:
                # It may read any attribute of a job, so that no job speaks for another.
                added += JOB_ID
        return Autoclusters(replaced=self.significant, added=added, removed=self.significant_removed)


def read_settings(config: Config, host: str, execute: Path) -> Settings:
    """The settings that ``config`` gives on ``host``. ``execute``: the default of LOCAL_UNIV_EXECUTE."""

    text, number, boolean = config.get_text, config.get_float, config.get_bool

    def words(name: str) -> tuple[str, ...]:
        return tuple(config.get_list(name))

    wanted = text("SCHEDD_NAME")
    name = wanted if "@" in wanted or wanted.lower() == host.lower() else f"{wanted}@{host}" if wanted else host
    domains = LocalDomains(text("UID_DOMAIN") or host)
    cool_down = CoolDown(config.get_expr("SYSTEM_ON_VACATE_COOL_DOWN"), max(0.0, number("SYSTEM_COOLDOWN_DURATION")))
    return Settings(
        name=name,
        host=host,
        uid_domain=domains.own,
        file_system_domain=text("FILESYSTEM_DOMAIN") or host,
        synchronous=text("SLOTWISE_SCHEDD_SYNCHRONOUS").upper(),
        history_days=int(number("SLOTWISE_HISTORY_DAYS")),
        fallback_account=text("SLOTWISE_UNKNOWN_OWNER_ACCOUNT"),
        output_flushes=boolean("SLOTWISE_OUTPUT_FSYNC"),
        userlog_flushes=boolean("ENABLE_USERLOG_FSYNC"),
        userlog_patience_s=max(0.0, number("SLOTWISE_USERLOG_PATIENCE")),
        superusers=SuperUsers.of(
            [
                *(name for word in text("QUEUE_SUPER_USERS").replace(",", " ").split() for name in named(word)),
                *(own_account() if boolean("PERSONAL_CONDOR_IS_SUPER_USER") else ()),
            ],
            domains,
            text("QUEUE_SUPER_USER_MAY_IMPERSONATE"),
            str(config.origin("QUEUE_SUPER_USER_MAY_IMPERSONATE") or ""),
        ),
        trusted_domains=text("TRUST_UID_DOMAIN"),
        least_uid=minimum_uid(config),
        hooks=read_rules(config),
        cleanup=CleanupSettings.of(config),
        extra_checkpoints=int(number("DEFAULT_NUM_EXTRA_CHECKPOINTS")),
        shares_common=not boolean("FORBID_COMMON_FILE_TRANSFER"),
        keep_common_s=int(number("KEEP_DATA_CLAIM_IDLE")),
        on_demand=boolean("SLOTWISE_NEGOTIATE_ON_DEMAND"),
        schedd_interval_s=number("SCHEDD_INTERVAL"),
        alive_interval_s=int(number("ALIVE_INTERVAL")),
        want_leftovers=boolean("CLAIM_PARTITIONABLE_LEFTOVERS"),
        jobs_running_most=int(number("MAX_JOBS_RUNNING")),
        start_vanilla=StartPolicy(config.get_expr("START_VANILLA_UNIVERSE")),
        local=_local(config, execute, cool_down),
        start_count=max(1, config.get_int("JOB_START_COUNT")),
        start_delay_s=number("JOB_START_DELAY"),
        next_start_delay_most_s=number("MAX_NEXT_JOB_START_DELAY"),
        dedicated_fifo=boolean("DEDICATED_SCHEDULER_USE_FIFO"),
        unused_claim_s=max(0, config.get_int("UNUSED_CLAIM_TIMEOUT")),
        vacate_cool_down=cool_down,
        refused_match_s=max(0.0, config.get_float("SLOTWISE_REFUSED_MATCH_DELAY")),
        stop_count=max(1, config.get_int("JOB_STOP_COUNT")),
        stop_delay_s=max(0.0, number("JOB_STOP_DELAY")),
        now_vacate_s=max(0.0, number("SCHEDD_NOW_JOB_VACATE_TIMEOUT")),
        background_action_jobs=config.get_int("SLOTWISE_BACKGROUND_ACTION_JOBS"),
        uploads_most=config.get_int("MAX_CONCURRENT_UPLOADS"),
        downloads_most=config.get_int("MAX_CONCURRENT_DOWNLOADS"),
        uploads_per_user_most=config.get_int("MAX_CONCURRENT_UPLOADS_PER_USER"),
        spool_mode=_SPOOL_MODES.get(text("JOB_SPOOL_PERMISSIONS").strip().lower(), 0o700),
        disk_throttle=_disk_throttle(config),
        transfer_queue_user=config.get_expr("TRANSFER_QUEUE_USER_EXPR"),
        jobs_most=config.get_int("MAX_JOBS_SUBMITTED"),
        jobs_per_owner_most=config.get_int("MAX_JOBS_PER_OWNER"),
        jobs_per_submission_most=config.get_int("MAX_JOBS_PER_SUBMISSION"),
        intake_most=(
            config.get_int("SLOTWISE_MAX_SUBMISSION_MB") << 20,
            config.get_int("SLOTWISE_MAX_SUBMISSIONS_MB") << 20,
        ),
        periodic_interval_s=number("PERIODIC_EXPR_INTERVAL"),
        periodic_timeslice=number("PERIODIC_EXPR_TIMESLICE"),
        proxy_interval_s=number("SHADOW_CHECKPROXY_INTERVAL"),
        periodic_interval_most_s=number("MAX_PERIODIC_EXPR_INTERVAL"),
        machine_attrs=words("SYSTEM_JOB_MACHINE_ATTRS"),
        machine_attrs_length=int(number("SYSTEM_JOB_MACHINE_ATTRS_HISTORY_LENGTH")),
        significant=words("SIGNIFICANT_ATTRIBUTES"),
        significant_added=words("ADD_SIGNIFICANT_ATTRIBUTES"),
        significant_removed=words("REMOVE_SIGNIFICANT_ATTRIBUTES"),
        locks=AttributeLocks.read(config),
        transfer_limits_mib=(number("MAX_TRANSFER_INPUT_MB"), number("MAX_TRANSFER_OUTPUT_MB")),
        event_log=_event_log(config),
        event_log_attrs=words("EVENT_LOG_JOB_AD_INFORMATION_ATTRS"),
        run_history=RunHistorySettings.of(config),
        statistics=StatisticsSettings.of(config),
        daemon_history=DaemonHistorySettings.of(config),
        history=ExportSettings.of(config),
        mail=MailSettings.of(config, host),
        date_form=DateForm.parse(text("DEFAULT_USERLOG_FORMAT_OPTIONS")),
        system=_system(config),
        rounding=_rounding(config),
        rules=SubmitRules.read(config),
        credentials=CredentialSettings.read(config),
        known_users_only=boolean("ALLOW_SUBMIT_FROM_KNOWN_USERS_ONLY"),
        use_job_sets=config.find_bool("USE_JOBSETS") is True,
        project_records=config.find_bool("PERSISTENT_PROJECT_RECORDS") is True,
        advertised=_advertised(config),
    )


#: By JOB_SPOOL_PERMISSIONS. Any other value is as ``user``, as in HTCondor.
_SPOOL_MODES = {"user": 0o700, "group": 0o750, "world": 0o755}


def _disk_throttle(config: Config) -> DiskThrottleSettings | None:
    knob = "FILE_TRANSFER_DISK_LOAD_THROTTLE"
    limits = parse_limits(config.get_text(knob), str(config.origin(knob) or ""))
    if limits is None:
        return None
    short, long = (
        parse_horizon(config.get_text(name), name, str(config.origin(name) or ""))
        for name in (f"{knob}_SHORT_HORIZON", f"{knob}_LONG_HORIZON")
    )
    return DiskThrottleSettings(*limits, short, long, max(0.0, config.get_float(f"{knob}_WAIT_BETWEEN_INCREMENTS")))


def _advertised(config: Config) -> Changes:
    return {**further_attributes(config, "SCHEDD")}


def _local(config: Config, execute: Path, cool_down: CoolDown) -> LocalSettings:
    is_set = config.origin("LOCAL_UNIV_EXECUTE") not in (None, DEFAULT)
    return LocalSettings(
        # Jobs need access to it, and have none to SPOOL.
        execute=Path(config.get_text("LOCAL_UNIV_EXECUTE")) if is_set else execute,
        control=config.get_text("SLOTWISE_CONTROL_DIR"),
        rules=StartRules(
            local=config.get_expr("START_LOCAL_UNIVERSE"),
            scheduler=config.get_expr("START_SCHEDULER_UNIVERSE"),
            scheduler_most=config.get_int("MAX_RUNNING_SCHEDULER_JOBS_PER_OWNER"),
        ),
        limits=LocalLimits(
            memory_mib=config.get_int("SLOTWISE_LOCAL_JOB_MEMORY"),
            requests_bind=config.get_bool("LOCAL_UNIVERSE_CGROUP_ENFORCEMENT"),
            processes=config.get_int("SLOTWISE_LOCAL_JOB_PROCESSES"),
            open_files=config.get_int("SLOTWISE_LOCAL_JOB_OPEN_FILES"),
            nice=config.get_int("SCHED_UNIV_RENICE_INCREMENT"),
        ),
        cool_down=cool_down,
        failure_cool_down_s=max(0.0, config.get_float("SCHEDULER_UNIVERSE_COOL_DOWN_DURATION")),
        least_uid=minimum_uid(config),
        base_cgroup=config.get_str("BASE_CGROUP"),
        cgroup_version=config.get_text("SLOTWISE_CGROUP_VERSION").lower(),
        cgroup_without_root=config.get_bool("CREATE_CGROUP_WITHOUT_ROOT"),
        dagman=dags.environment(
            config.get_str("DAGMAN_CONDOR_SUBMIT_EXE") or _own_command("condor_submit"),
            config.get_str("DAGMAN_CONDOR_RM_EXE") or _own_command("condor_rm"),
        ),
    )


def _own_command(name: str) -> str:
    """The link of this installation under HTCondor's name; "" where it has not been made."""
    path = Path(slotwise.__file__).parent / "condor_names" / name
    return str(path) if path.exists() else ""


def _event_log(config: Config) -> GlobalLogSettings | None:
    path = config.get("EVENT_LOG")
    if path is None or not path.strip():
        return None
    size = config.get_int("EVENT_LOG_MAX_SIZE")
    if size < 0:
        size = config.get_int("MAX_EVENT_LOG")
    return GlobalLogSettings(
        path.strip(), size, config.get_int("EVENT_LOG_MAX_ROTATIONS"), config.get_bool("EVENT_LOG_FSYNC")
    )


def _system(config: Config) -> SystemPolicy:
    read = config.get_text

    def rows(kind: str) -> tuple[tuple[str, str, str, str], ...]:
        base = f"SYSTEM_PERIODIC_{kind}"
        names = [base] + [f"{base}_{name}" for name in config.get_list(f"{base}_NAMES")]
        found = []
        for name in names:
            expression = read(name)
            if expression and expression.lower() != "false":
                reason, subcode = read(f"{name}_REASON"), read(f"{name}_SUBCODE")
                # HTCondor evaluates these two as texts, in the new syntax (``EvaluateExpr``).
                found.append((name, new_syntax(expression), reason, subcode))
        return tuple(found)

    return SystemPolicy(
        hold=rows("HOLD"),
        release=rows("RELEASE"),
        remove=rows("REMOVE"),
        vacate=rows("VACATE"),
        max_releases=config.get_int("SYSTEM_MAX_RELEASES"),
    )


def _rounding(config: Config) -> dict[str, str]:
    steps: dict[str, str] = {}
    for name in ROUNDED:
        knob = f"SCHEDD_ROUND_ATTR_{name}"
        step = config.get_text(knob).strip()
        if step in ("", "0", "0%"):
            continue
        if not is_step(step):
            raise ConfigError(
                f"{knob} = {step} is not a way to round",
                hint="write a percentage (25%), or a number of decimal places",
                origin=str(config.origin(knob) or ""),
                key=knob,
            )
        steps[name] = step
    return steps
