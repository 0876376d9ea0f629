"""What finding the jobs that go with others may cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from slotwise.classad import ClassAd, ExprTree
from slotwise.schedd.jobs.decision import Decision
from slotwise.schedd.jobs.dependents import Dependents
from slotwise.table import AdTable


class Counting(AdTable):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []

    def query_keys(self, constraint: Any = None, *rest: Any, **more: Any) -> list[str]:
        self.asked.append(constraint)
        return super().query_keys(constraint, *rest, **more)


def removal(table: AdTable, count: int, condition: str) -> tuple[Dependents, Decision, list[str]]:
    """Jobs of alice that leave together, and the keys that are looked up as their dependents."""
    looked_up: list[str] = []
    queue: Any = SimpleNamespace(owned={"alice@here": 1}, by_key=lambda key: looked_up.append(key))
    decision = Decision(0.0)
    for number in range(count):
        cluster = SimpleNamespace(others_removed=condition, user="alice@here")
        job: Any = type("Leaving", (), {"cluster": cluster, "key": f"{number}.0"})()
        decision.retired.append(job)
    ads: Any = SimpleNamespace(table=table)
    return Dependents(queue, ads), decision, looked_up


def test_a_condition_is_evaluated_once_over_jobs_of_the_user() -> None:
    table = Counting()
    for key, user in (("1.0", "alice@here"), ("2.0", "bob@here")):
        table.upsert(key, ClassAd({"User": user, "A": 1}))
    dependents, decision, looked_up = removal(table, 50, "A == 1 || true")
    dependents.remove(decision)
    dependents.remove(decision)
    assert len(table.asked) == 1
    assert looked_up == ["1.0"]


def test_all_jobs_of_a_decision_share_the_steps(caplog: pytest.LogCaptureFixture) -> None:
    table = Counting()
    doubling = {f"D{number}": ExprTree(f"D{number + 1} + D{number + 1}") for number in range(24)}
    for number in range(200):
        table.upsert(f"{number}.0", ClassAd({"User": "alice@here", **doubling, "D24": number}))
    dependents, decision, _ = removal(table, 1, "D0 == 1")
    dependents.remove(decision)
    assert "0.0: OtherJobRemoveRequirements exceeded the limit of" in caplog.text
    assert "condor_rm -constraint" in caplog.text
