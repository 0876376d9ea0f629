"""The knobs of runtimes."""

from __future__ import annotations

from msgspec import Struct, field

from slotwise.classad import ExprTree
from slotwise.config import Config
from slotwise.errors import SlotwiseError
from slotwise.starter.runtimes.apptainer import ApptainerSettings, read_apptainer
from slotwise.starter.runtimes.choice import ChoiceRules
from slotwise.starter.runtimes.docker.rules import DockerRules, read_docker
from slotwise.starter.runtimes.images import CacheSettings, read_cache
from slotwise.starter.runtimes.vm.rules import VmRules, read_vm_rules


class RuntimeSettings(Struct, frozen=True):
    """What the configuration says to the runtimes; each has a part of its own."""

    choice: ChoiceRules = field(default_factory=ChoiceRules)
    docker: DockerRules = field(default_factory=DockerRules)
    apptainer: ApptainerSettings = field(default_factory=ApptainerSettings)
    vm: VmRules = field(default_factory=VmRules)
    cache: CacheSettings = field(default_factory=CacheSettings)


def read_runtimes(config: Config) -> RuntimeSettings:
    """Read the knobs of all runtimes."""
    return RuntimeSettings(
        choice=ChoiceRules(
            singularity_job=expression(config, "SINGULARITY_JOB"),
            singularity_image=expression(config, "SINGULARITY_IMAGE_EXPR"),
            use_default=expression(config, "USE_DEFAULT_CONTAINER"),
            default_image=expression(config, "DEFAULT_CONTAINER_IMAGE"),
        ),
        docker=read_docker(config),
        apptainer=read_apptainer(config),
        vm=read_vm_rules(config),
        cache=read_cache(config),
    )


def expression(config: Config, name: str) -> ExprTree | None:
    """A knob as an expression; None when it is not set or cannot be read (the loader has warned about it)."""
    try:
        return config.get_expr(name)
    except SlotwiseError:
        return None
