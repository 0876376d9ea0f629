"""The clauses of Requirements that keep jobs away from a host that cannot pull their images now."""

from __future__ import annotations

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.startd.slot_ad.attributes import pulls_elsewhere


@pytest.mark.parametrize(
    ("offline", "job", "taken"),
    [
        ("dead.example:5000", {"DockerImage": "dead.example:5000/a:1"}, False),
        ("dead.example:5000", {"DockerImage": "dead.example/a:1"}, True),
        ("dead.example:5000", {"DockerImage": "debian"}, True),
        ("dead.example:5000", {"ContainerImage": "oras://Dead.example:5000/a"}, False),
        ("dead.example:5000", {"ContainerImage": "dead.example:5000/a.sif"}, True),
        ("dead.example", {"DockerImage": "deadXexample/a"}, True),
        ("dead.example", {"DockerImage": "good.example/dead.example/a"}, True),
        ("dead.example, docker.io", {"DockerImage": "debian:12"}, False),
        ("docker.io", {"DockerImage": "user/image"}, False),
        ("docker.io", {"ContainerImage": "docker://debian"}, False),
        ("docker.io", {"ContainerImage": "image.sif"}, True),
        ("docker.io", {"ContainerImage": "/images/debian"}, True),
        ("docker.io", {"DockerImage": "good.example/debian"}, True),
        ("docker.io", {}, True),
        ('x") || regexp("', {"DockerImage": "debian"}, True),
    ],
)
def test_who_is_kept_away(offline: str, job: dict[str, str], *, taken: bool) -> None:
    text = " && ".join(f"({part})" for part in ["true", *pulls_elsewhere(offline)])
    slot = ClassAd()
    slot["Requirements"] = ExprTree(text, old=True)
    target = ClassAd()
    for name, value in job.items():
        target[name] = value
    assert slot.eval("Requirements", target) is taken
    slot["Requirements"] = ExprTree(text)
    assert slot.eval("Requirements", target) is taken


def test_without_a_closed_registry_there_is_no_clause() -> None:
    assert pulls_elsewhere(None) == [] and pulls_elsewhere("") == []
