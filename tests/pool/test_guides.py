"""The pages for people who run jobs, and the worked examples: their commands run, and print what the pages say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import guide
from tests.support.dags import pool_of_a_user
from tests.support.pool import Pool

DOCS = Path(__file__).parents[2] / "docs"
USERS = sorted(path.name for path in (DOCS / "users").glob("*.md"))
GUIDES = ["coming-from-htcondor.md"]
EXAMPLES = sorted(path.name for path in (DOCS / "examples").glob("*.md"))
#: Pages without commands: they lead to others.
WITHOUT = {"containers.md"}
#: A host as readers have it, but for its size, which hosts of tests do not all have.
HOST = "NUM_CPUS = 4\nMEMORY = 8192\n"


@pytest.mark.parametrize(
    "name",
    [*(f"users/{name}" for name in USERS if name not in WITHOUT), *(f"guides/{name}" for name in GUIDES)],
)
def test_a_page_about_running_jobs(name: str, make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(HOST)
    pool.up()
    pool.until("the slot is advertised", lambda: pool.json("status"))
    guide.run(pool, guide.page(name))


def test_the_guide_of_dags() -> None:
    """By an ordinary account: what runs a DAG is a job on the access point."""
    with pool_of_a_user(HOST) as pool:
        pool.until("the slot is advertised", lambda: pool.json("status"))
        guide.run(pool, guide.page("guides/dags.md"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_worked_example(name: str, make_pool: Callable[[str], Pool]) -> None:
    """An example brings the pool up itself, with its own configuration."""
    pool = make_pool(HOST)
    text = guide.page(f"examples/{name}")
    assert re.search(r"^\$ slotwise up --config \S+$", text, re.MULTILINE), "it begins with a pool"
    del pool.env["CONDOR_CONFIG"]
    guide.run(pool, text)


def test_all_pages_have_commands_but_those_that_say_so() -> None:
    assert USERS and EXAMPLES
    assert {name for name in USERS if not guide.commands_of(guide.page(f"users/{name}"))} == WITHOUT
