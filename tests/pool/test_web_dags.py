"""DAGs over HTTP and on the page: those of the queue, and one of them as boxes in rows, for its owner."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.pool.test_web import DAEMONS, Caller
from tests.support.browser import BROWSER, Browser
from tests.support.dags import Place, place_on, pool_of_a_user
from tests.support.pool import Pool

#: Waits until there is a file `go`.
WAITS = """executable = /bin/sh
transfer_executable = false
arguments = "-c 'while test ! -e {place}/go; do sleep 0.1; done'"
request_memory = 16M
request_disk = 1M
queue
"""
WIDE = 100


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with pool_of_a_user(DAEMONS) as pool:
        yield pool


@pytest.fixture
def place(pool: Pool) -> Place:
    return place_on(pool)


def submitted(place: Place) -> int:
    """A DAG whose first node runs until it may end, with many nodes below it."""
    nodes = [f"N{number}" for number in range(WIDE)]
    lines = ["JOB First a.sub", *(f"JOB {node} b.sub NOOP" for node in nodes), f"PARENT First CHILD {' '.join(nodes)}"]
    text = WAITS.format(place=place.work)
    place.write(x_dag="\n".join(lines) + "\n", a_sub=text, b_sub=text)
    cluster = place.submit("x.dag")
    place.until("the first node runs", "x.dag.nodes.log", "^001 ")
    return cluster


def caller_of(pool: Pool, identity: str) -> Caller:
    rights = ("-authz", "READ", "-authz", "WRITE")
    return Caller(pool, pool.run("token", "create", "-identity", identity, *rights).stdout.strip())


def test_the_owner_of_a_dag_is_shown_it_and_nobody_else(pool: Pool, place: Place) -> None:
    cluster = submitted(place)
    anybody = Caller(pool)
    user = anybody("GET", f"/api/v1/jobs/{cluster}.0").json[0]["User"]
    owner, stranger = caller_of(pool, user), caller_of(pool, "mallory@elsewhere")
    path = f"/api/v1/dags/{cluster}"
    assert anybody("GET", path).status == 401
    refused = stranger("GET", path)
    assert (refused.status, refused.json["detail"]) == (403, f"the files of DAG {cluster} are its user's")
    shown = owner("GET", path).json
    assert shown["counts"] == {"submitted": 1, "not_ready": WIDE}
    (first,), (rest,) = shown["rows"]
    assert first["label"] == "First" and first["state"] == "submitted" and first["job"] > cluster
    assert (rest["nodes"], rest["states"]) == (WIDE, {"not_ready": WIDE})
    assert shown["edges"] == [[0, 0, 1, 0]]
    other = owner("GET", f"/api/v1/dags/{first['job']}")
    assert other.status == 400 and other.json["detail"] == f"job {first['job']} runs no DAG"
    assert owner("GET", "/api/v1/dags/99999").status == 404
    # What it asks of the files of the DAG it asks with its owner's rights alone.
    (place.work / "x.dag").rename(place.work / "y.dag")
    pool.until("its files are looked at again", lambda: owner("GET", path).status != 200)
    assert "x.dag" in owner("GET", path).json["detail"]
    (place.work / "y.dag").rename(place.work / "x.dag")
    place.write(go="")
    place.ended()
    pool.until("it is shown from the history", lambda: owner("GET", path).json.get("counts") == {"done": WIDE + 1})


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_dag_is_followed_on_the_page(pool: Pool, place: Place) -> None:
    cluster = submitted(place)
    user = Caller(pool)("GET", f"/api/v1/jobs/{cluster}.0").json[0]["User"]
    owner = caller_of(pool, user)
    with Browser() as page:
        page.open(f"{owner.base}/#/dags")
        page.until(f"document.querySelector('a[href=\"#/dag/{cluster}\"]') !== null")
        page.click("#sign")
        page.run(f"document.getElementById('token').value = {json.dumps(owner.token)}")
        page.click("#signing button.primary")
        page.until(f"document.getElementById('who').textContent === {json.dumps(user)}")
        page.run(f"location.hash = '#/dag/{cluster}'")
        page.until("document.querySelectorAll('.dag g').length === 2")
        page.run("document.querySelectorAll('.dag g')[1].dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
        page.until(f"document.getElementById('box').innerText.includes('{WIDE} waiting')")
        place.write(go="")
        page.until("document.querySelector('h1').textContent.includes('has ended with status 0')")
        page.until(f"document.querySelector('main').innerText.includes('{WIDE} done')")
