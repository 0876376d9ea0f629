"""The knobs of Docker jobs."""

from __future__ import annotations

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config
from slotwise.errors import SlotwiseError, UsageError
from slotwise.execution.arguments import in_double_quotes, split_new, split_old
from slotwise.model.words import truth
from slotwise.starter.job.ads import evaluate


class HostVolume(Struct, frozen=True):
    """A directory of the host that containers get: ``mount`` is HOST:CONTAINER, with options behind."""

    name: str
    mount: str
    #: DOCKER_VOLUME_DIR_<name>_MOUNT_IF; None: for every job.
    mount_if: ExprTree | None = None

    def is_mounted(self, machine: ClassAd, job: ClassAd) -> bool:
        """Whether a job's container gets it."""
        return self.mount_if is None or _is_true(self.mount_if, machine, job)


class DockerRules(Struct, frozen=True):
    """The DOCKER_* knobs. ``program``: DOCKER in words, none where there are to be no Docker jobs."""

    program: tuple[str, ...] = ()
    #: The administrator has named it: that it is not there is a mistake then.
    is_named: bool = False
    perform_test: bool = True
    test_image: str = ""
    test_image_path: str = ""
    #: DOCKER_VOLUMES: names that are advertised.
    advertised: tuple[str, ...] = ()
    #: DOCKER_MOUNT_VOLUMES with their directories.
    volumes: tuple[HostVolume, ...] = ()
    networks: str = ""
    shm_size: ExprTree | None = None
    drop_capabilities: ExprTree | None = None
    extra_arguments: tuple[str, ...] = ()
    cache_size: int = 8
    cache_advertise_s: int = 1200
    under_init: bool = True
    keeps_no_log: bool = True
    trusts_local_images: bool = False
    skips_arch_check: bool = False
    maps_all_gpus: bool = False
    pull_timeout_s: int = 3600
    #: Scratch directories are on volumes that only starter and jobs see (as root).
    hides_scratch: bool = False
    #: What of the knobs could not be used, in words.
    misread: tuple[str, ...] = ()

    def drops_capabilities(self, machine: ClassAd, job: ClassAd) -> bool:
        """DOCKER_DROP_ALL_CAPABILITIES for a job. An expression without a value is as good as true: nobody gets rights
        by a mistake."""
        if self.drop_capabilities is None:
            return True
        value = evaluate(self.drop_capabilities, machine, job)
        return value is not False and value != 0

    def shm_bytes(self, machine: ClassAd, job: ClassAd) -> int | None:
        """DOCKER_SHM_SIZE for a job; None for Docker's default."""
        value = evaluate(self.shm_size, machine, job) if self.shm_size is not None else None
        return int(value) if isinstance(value, int | float) and value > 0 else None


def _is_true(expression: ExprTree, machine: ClassAd, job: ClassAd) -> bool:
    value = evaluate(expression, machine, job)
    return bool(value) if isinstance(value, bool | int | float) else False


def read_docker(config: Config) -> DockerRules:
    """Read the knobs. What cannot be read is left out and said in ``misread``."""
    misread: list[str] = []
    return DockerRules(
        program=tuple(config.get_str("DOCKER").split()),
        is_named=config.is_set("DOCKER"),
        perform_test=config.get_bool("DOCKER_PERFORM_TEST"),
        test_image=config.get_str("DOCKER_TEST_IMAGE_NAME").strip(),
        test_image_path=config.get_str("DOCKER_TEST_IMAGE_PATH").strip(),
        advertised=tuple(config.get_list("DOCKER_VOLUMES")),
        volumes=_volumes(config, misread),
        networks=config.get_str("DOCKER_NETWORKS").strip(),
        shm_size=_expression(config, "DOCKER_SHM_SIZE", misread),
        drop_capabilities=_expression(config, "DOCKER_DROP_ALL_CAPABILITIES", misread),
        extra_arguments=_words(config, "DOCKER_EXTRA_ARGUMENTS", misread),
        cache_size=max(0, config.get_int("DOCKER_IMAGE_CACHE_SIZE")),
        cache_advertise_s=max(0, config.get_int("DOCKER_CACHE_ADVERTISE_INTERVAL")),
        under_init=config.get_bool("DOCKER_RUN_UNDER_INIT"),
        keeps_no_log=config.get_bool("DOCKER_LOG_DRIVER_NONE"),
        trusts_local_images=config.get_bool("DOCKER_TRUST_LOCAL_IMAGES"),
        skips_arch_check=config.get_bool("DOCKER_SKIP_IMAGE_ARCH_CHECK"),
        maps_all_gpus=config.get_bool("DOCKER_MAP_ALL_GPUS"),
        pull_timeout_s=max(0, config.get_int("DOCKER_PULL_TIMEOUT")),
        hides_scratch=config.get_bool("STARTD_ENFORCE_DISK_LIMITS")
        and truth(config.get_text("LVM_HIDE_MOUNT")) is not False,
        misread=tuple(misread),
    )


def _volumes(config: Config, misread: list[str]) -> tuple[HostVolume, ...]:
    found = []
    for name in config.get_list("DOCKER_MOUNT_VOLUMES"):
        knob = f"DOCKER_VOLUME_DIR_{name}"
        where = config.get_str(knob).strip()
        if not where:
            misread.append(f"DOCKER_MOUNT_VOLUMES names {name}, and there is no {knob}")
            continue
        condition = f"{knob}_MOUNT_IF"
        given = bool(config.get_str(condition).strip())
        mount_if = _expression(config, condition, misread) if given else None
        if given and mount_if is None:
            continue  # a condition that nobody understands is not met
        found.append(HostVolume(name, where if ":" in where else f"{where}:{where}", mount_if))
    return tuple(found)


def _expression(config: Config, name: str, misread: list[str]) -> ExprTree | None:
    try:
        return config.get_expr(name)
    except SlotwiseError as error:
        misread.append(f"{name} is not an expression: {error}")
        return None


def _words(config: Config, name: str, misread: list[str]) -> tuple[str, ...]:
    text = config.get_str(name).strip()
    quoted = in_double_quotes(text)
    try:
        return tuple(split_old(text) if quoted is None else split_new(quoted))
    except UsageError as error:
        misread.append(f"{name} is left out: {error}")
        return ()
