"""Which runtime a job runs in, by its ad, the machine's and the knobs."""

from __future__ import annotations

from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.execution.exit_status import How
from slotwise.starter.job.choice import Choice
from slotwise.starter.job.failures import LaunchRefusedError
from slotwise.starter.runtimes.choice import ChoiceRules, choose

_BOTH = ("docker", "apptainer")
_JOB = ChoiceRules(singularity_job=ExprTree("TARGET.Contained", old=True))


def chosen(job: dict[str, Any], works: tuple[str, ...] = _BOTH, rules: ChoiceRules | None = None) -> Choice:
    return choose(ClassAd(job), ClassAd({"HasFast": True}), rules or ChoiceRules(), works)


_CONTAINER = {"WantContainer": True, "ContainerImage": "image.sif"}


@pytest.mark.parametrize(
    ("job", "works", "choice"),
    [
        ({}, _BOTH, Choice()),
        ({"WantDocker": True, "DockerImage": "debian"}, _BOTH, Choice("docker", "debian")),
        ({**_CONTAINER, "WantSIF": True}, _BOTH, Choice("apptainer", "image.sif")),
        ({"WantContainer": True, "WantDockerImage": True, "ContainerImage": "docker://a"}, _BOTH,
         Choice("docker", "docker://a")),
        ({"WantContainer": True, "WantDockerImage": True, "ContainerImage": "docker://a"}, ("apptainer",),
         Choice("apptainer", "docker://a")),
        ({"WantContainer": True, "WantDockerImage": True, "DockerImage": "a"}, ("apptainer",),
         Choice("apptainer", "a")),
        ({"JobUniverse": 13}, ("vm",), Choice("vm")),
    ],
)  # fmt: skip
def test_the_job_has_its_runtime(job: dict[str, Any], works: tuple[str, ...], choice: Choice) -> None:
    assert chosen(job, works) == choice


@pytest.mark.parametrize(
    ("job", "works"),
    [
        ({"WantDocker": True, "DockerImage": "debian"}, ("apptainer",)),
        (_CONTAINER, ("docker",)),
        (_CONTAINER, ()),
        ({"SingularityImage": "x.sif"}, _BOTH),
        ({"JobUniverse": 13}, _BOTH),
    ],
)
def test_a_job_that_cannot_have_what_it_wants_is_held(job: dict[str, Any], works: tuple[str, ...]) -> None:
    with pytest.raises(LaunchRefusedError) as refused:
        chosen(job, works)
    assert refused.value.end.how is How.HELD and "starts none" in refused.value.end.reason


def test_the_administrator_puts_jobs_into_containers() -> None:
    image = ChoiceRules(_JOB.singularity_job, ExprTree('MY.HasFast ? "/fast" : "/slow"', old=True))
    assert chosen({"Contained": True}, rules=image) == Choice("apptainer", "/fast")
    assert chosen({"Contained": True, "SingularityImage": "own"}, rules=_JOB) == Choice("apptainer", "own")
    assert chosen({"Contained": False}, rules=image) == Choice()


def test_a_container_that_only_the_administrator_wants_sends_the_job_elsewhere() -> None:
    for job, works in (({"Contained": True}, _BOTH), ({"Contained": True, "SingularityImage": "own"}, ())):
        with pytest.raises(LaunchRefusedError) as refused:
            chosen(job, works, _JOB)
        assert refused.value.end.how is How.NOT_STARTED


@pytest.mark.parametrize(
    ("image", "works", "choice"),
    [
        ("docker://debian", _BOTH, Choice("docker", "docker://debian")),
        ("docker://debian", ("apptainer",), Choice("apptainer", "docker://debian")),
        ("/images/a.sif", _BOTH, Choice("apptainer", "/images/a.sif")),
    ],
)
def test_the_default_container_is_for_jobs_that_ask_for_none(
    image: str, works: tuple[str, ...], choice: Choice
) -> None:
    rules = ChoiceRules(use_default=ExprTree("true", old=True), default_image=ExprTree(f'"{image}"', old=True))
    assert chosen({}, works, rules) == choice
    assert chosen({"WantContainer": True, "ContainerImage": "/own"}, works, rules) == Choice("apptainer", "/own")
