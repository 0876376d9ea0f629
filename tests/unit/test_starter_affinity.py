"""Which cores jobs are bound to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotwise.classad import ClassAd, ExprTree
from slotwise.starter.enforcement.affinity import CoreRules, choose, core_numbers, nodes_of_host

TWO_NODES = ((0, 2, 4, 6), (1, 3, 5, 7))


def test_a_job_gets_cores_that_nobody_uses_and_stays_on_one_node() -> None:
    assert choose(2, TWO_NODES, {}) == (0, 2)
    assert choose(2, TWO_NODES, {0: 1, 2: 1}) == (4, 6), "the other node stays whole for a larger job"
    assert choose(4, TWO_NODES, {0: 1}) == (1, 3, 5, 7)
    assert choose(3, TWO_NODES, {0: 1, 2: 1, 1: 1, 3: 1}) == (4, 5, 6), "two nodes are better than a shared core"
    assert choose(1, TWO_NODES, dict.fromkeys(range(8), 1) | {5: 0}) == (5,)
    assert choose(8, TWO_NODES, {0: 3}) == choose(99, TWO_NODES, {}) == tuple(range(8))


@given(st.lists(st.integers(1, 8), max_size=20), st.integers(1, 4))
def test_cores_are_used_evenly(counts: list[int], nodes: int) -> None:
    of_node = tuple(tuple(range(node, 8, nodes)) for node in range(nodes))
    used: Counter[int] = Counter()
    for count in counts:
        cores = choose(count, of_node, used)
        assert len(set(cores)) == len(cores) == count
        unused = sum(used[core] == 0 for core in range(8))
        assert sum(used[core] == 0 for core in cores) == min(count, unused), "no core is shared while another is free"
        used.update(cores)


def test_nodes_have_the_cores_that_the_daemons_may_use(tmp_path: Path) -> None:
    for name, cores in (("node0", "0-3"), ("node1", "4-7"), ("node2", "\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpulist").write_text(cores)
    assert nodes_of_host({1, 2, 5, 9}, tmp_path) == ((1, 2), (5,), (9,))
    assert nodes_of_host({1, 0}, tmp_path / "nothing") == ((0, 1),)


def test_lists_of_cores() -> None:
    assert core_numbers(" 0-2, 8 2\n") == (0, 1, 2, 8)
    with pytest.raises(ValueError):
        core_numbers("0,two")


def test_enforce_has_the_core_of_the_slots_number_unless_it_is_told_others() -> None:
    rules = CoreRules(enforce=True, by_slot={2: (5, 6)})
    assert (rules.fixed(1), rules.fixed(2), rules.fixed(0)) == ((0,), (5, 6), ())
    assert CoreRules(by_slot={2: (5, 6)}).fixed(2) == ()


@pytest.mark.parametrize(
    ("text", "bound"), [("WantCores", True), ("!WantCores", False), ("Missing", False), ("1", True)]
)
def test_assign_is_an_expression_over_the_job(text: str, bound: bool) -> None:
    assert CoreRules(ExprTree(text)).assigns(ClassAd({"WantCores": True})) is bound
