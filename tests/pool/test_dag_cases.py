"""DAGs that were run by HTCondor 25.14.1: submitted, run, killed, held, removed and submitted again here, all of them
beside each other on one pool, what they leave behind is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.dag_cases import CASES, Player, compared
from tests.support.dags import pool_of_a_user

#: Of slots there are more than jobs, as there.
CONFIG = """
NUM_CPUS = 40
MEMORY = 40000
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
"""
#: Cases at a time: most of their time they wait.
_AT_ONCE = 8


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[dict[str, Any]]]]:
    """What is to be seen of each case that is asked for."""
    asked = {item.name.partition("[")[2].rstrip("]") for item in request.session.items if item.path == request.path}
    with pool_of_a_user(CONFIG) as pool, ThreadPoolExecutor(_AT_ONCE) as threads:
        yield {case["name"]: threads.submit(Player(pool, case).play) for case in CASES if case["name"] in asked}


@pytest.mark.parametrize("case", [case["name"] for case in CASES])
def test_a_dag_leaves_behind_what_it_leaves_in_htcondor(
    case: str, played: Mapping[str, Future[dict[str, Any]]]
) -> None:
    wanted = next(row["expected"] for row in CASES if row["name"] == case)
    assert compared(played[case].result()) == compared(wanted)
