"""Decides which runtime a job runs in on a slot: as HTCondor's starter does, from the job's ad and what works here."""

from __future__ import annotations

import errno
from collections.abc import Collection

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.execution.exit_status import FAILED_TO_CREATE_PROCESS, STARTER_ERROR, End, How, held
from slotwise.starter.job.ads import evaluate, lookup
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.failures import LaunchRefusedError

DOCKER, APPTAINER, VM = "docker", "apptainer", "vm"
VM_UNIVERSE = 13
#: What names an image, in the order in which it counts.
_IMAGES = ("ContainerImage", "DockerImage", "SingularityImage")


class ChoiceRules(Struct, frozen=True):
    """Knobs that put jobs into containers; expressions over the machine (MY) and the job (TARGET)."""

    #: SINGULARITY_JOB.
    singularity_job: ExprTree | None = None
    #: SINGULARITY_IMAGE_EXPR; None: the job's SingularityImage.
    singularity_image: ExprTree | None = None
    #: USE_DEFAULT_CONTAINER.
    use_default: ExprTree | None = None
    #: DEFAULT_CONTAINER_IMAGE.
    default_image: ExprTree | None = None


def choose(
    job: ClassAd, machine: ClassAd, rules: ChoiceRules, works: Collection[str], *, wrapper: bool = False
) -> Choice:
    """The runtime of a job.

    :param works: names of the runtimes that work on this host.
    :param wrapper: there is a job wrapper, which may be what starts containers where no runtime works.
    :raises LaunchRefusedError: when the job is to run in a container or machine that this host cannot give it.
    """
    value = lookup(job)
    if value("JobUniverse") == VM_UNIVERSE:
        return _working(Choice(VM), works, "in a virtual machine")
    image = next((found for name in _IMAGES if isinstance(found := value(name), str) and found), "")
    if value("WantDocker") is True:
        return _working(Choice(DOCKER, _text(value("DockerImage")) or image), works, f"in the Docker image {image}")
    if value("WantContainer") is True:
        return _container(image, value("WantDockerImage") is True, works, wrapper=wrapper)
    try:
        if _is_true(rules.use_default, machine, job):
            named = _text(evaluate(rules.default_image, machine, job)) if rules.default_image is not None else ""
            if named:
                return _container(named, named.startswith("docker:"), works, wrapper=False)
        if _is_true(rules.singularity_job, machine, job) or _wants_image(job):
            return _singularity(job, machine, rules, works)
    except LaunchRefusedError as refused:
        # The administrator wants it so, not the job: elsewhere it may run.
        raise LaunchRefusedError(End(How.NOT_STARTED, reason=str(refused), reason_code=STARTER_ERROR)) from None
    if image and not wrapper:
        why = "its attributes ask for none of the runtimes here: SINGULARITY_JOB is not true for it"
        raise _refused(f"in the container {image}", why)
    return Choice()


def _wants_image(job: ClassAd) -> bool:
    value = lookup(job)
    return any(value(name) is True for name in ("WantSIF", "WantSandboxImage", "WantDockerImage"))


def _container(image: str, from_docker: bool, works: Collection[str], *, wrapper: bool) -> Choice:
    """Container universe: a repository's image goes to Docker where that works, everything else to Apptainer."""
    if from_docker and DOCKER in works:
        return Choice(DOCKER, image)
    if APPTAINER in works:
        return Choice(APPTAINER, image)
    if wrapper:
        return Choice()
    if DOCKER in works:
        raise _refused(f"in the container {image}", "Docker takes images of a registry only (docker://...)")
    raise _refused(f"in the container {image}", "no container runtime works here")


def _singularity(job: ClassAd, machine: ClassAd, rules: ChoiceRules, works: Collection[str]) -> Choice:
    image = _text(evaluate(rules.singularity_image, machine, job)) if rules.singularity_image is not None else ""
    value = lookup(job)
    image = image or _text(value("SingularityImage")) or _text(value("ContainerImage"))
    if not image:
        raise _refused("in a container", "SINGULARITY_JOB is true, and SINGULARITY_IMAGE_EXPR names no image")
    return _working(Choice(APPTAINER, image), works, f"in the container {image}")


def _working(choice: Choice, works: Collection[str], where: str) -> Choice:
    if choice.runtime in works:
        return choice
    names = {DOCKER: "Docker", APPTAINER: "Apptainer", VM: "virtual machines"}
    raise _refused(where, f"{names[choice.runtime]} does not work here" if choice.runtime != VM else "there are none")


def _refused(where: str, why: str) -> LaunchRefusedError:
    reason = f"The job is to run {where}, and this execution point starts none: {why}"
    return LaunchRefusedError(held(reason, FAILED_TO_CREATE_PROCESS, errno.ENOSYS))


def _is_true(expression: ExprTree | None, machine: ClassAd, job: ClassAd) -> bool:
    value = evaluate(expression, machine, job) if expression is not None else None
    return bool(value) if isinstance(value, bool | int | float) else False


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
