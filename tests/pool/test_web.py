"""The web service of a running pool: the API through a job's life, and metrics of its daemons, over plain HTTP."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from slotwise.classad import ClassAd
from slotwise.client import Collector, Schedd

from tests.support.pool import Pool

DAEMONS = "DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, WEB\nSLOTWISE_HTTP_PORT = 0\nNUM_CPUS = 4\n"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Caller:
    """Calls the service of a pool, as curl would."""

    def __init__(self, pool: Pool, token: str = "") -> None:
        log = (pool.home.log / "WebLog").read_text()
        found = re.findall(r"serving (http://127\.0\.0\.1:\d+)/", log)
        assert found, log
        self.base, self.token = found[-1], token

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.base + path, data, given, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30) as reply:
                return Reply(reply.status, dict(reply.headers), reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers), error.read())


def samples(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families: Iterable[Metric] = text_string_to_metric_families(page.decode())  # type: ignore[no-untyped-call]
    return {(row.name, tuple(sorted(row.labels.items()))): row.value for family in families for row in family.samples}


def test_a_jobs_life_over_http(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    pool.until("slots", lambda: anybody("GET", "/api/v1/slots").json)
    pool.until("the schedd's ad", lambda: anybody("GET", "/api/v1/schedds").json)
    with Schedd(env=pool.env) as schedd:
        schedd.submit({"executable": "/bin/sleep", "arguments": "1000", "transfer_executable": False})
    job = pool.until("the job", lambda: anybody("GET", "/api/v1/jobs?projection=ClusterId,ProcId,JobStatus").json)[0]
    assert (job["ClusterId"], job["ProcId"]) == (1, 0)
    pool.until("its start", lambda: anybody("GET", "/api/v1/jobs/1.0").json[0]["JobStatus"] == 2)

    # Nobody changes anything without a token, nor with a wrong one.
    hold = {"action": "hold", "jobs": ["1.0"], "reason": "over HTTP"}
    refused = anybody("POST", "/api/v1/jobs/act", hold)
    assert (refused.status, refused.headers["content-type"]) == (401, "application/problem+json")
    assert Caller(pool, "nonsense")("POST", "/api/v1/jobs/act", hold).status == 401
    assert Caller(pool, "nonsense")("GET", "/api/v1/jobs").status == 401

    owner = anybody("GET", "/api/v1/jobs/1.0?projection=User").json[0]["User"]
    token = pool.run("token", "create", "-identity", owner, "-authz", "WRITE").stdout.strip()
    user = Caller(pool, token)
    assert user("POST", "/api/v1/jobs/act", {"action": "dance", "jobs": ["1.0"]}).json["title"] == "usage"
    assert user("POST", "/api/v1/jobs/act", hold).json == {"success": 1}
    held = pool.until("the hold", lambda: [ad for ad in user("GET", "/api/v1/jobs/1").json if ad["JobStatus"] == 5])[0]
    assert "over HTTP" in held["HoldReason"]
    edit = {"jobs": ["1.0"], "attributes": {"JobPrio": "2 + 3"}}
    assert user("POST", "/api/v1/jobs/edit", edit).json == {"success": 1}
    assert user("GET", "/api/v1/jobs/1.0?projection=JobPrio").json[0]["JobPrio"] in (5, "/Expr(2 + 3)/")
    assert user("POST", "/api/v1/jobs/act", {"action": "remove", "jobs": ["1.0"]}).json == {"success": 1}
    pool.until("the history", lambda: anybody("GET", "/api/v1/history").json)
    assert anybody("GET", "/api/v1/jobs/1.0").json[0]["JobStatus"] == 3
    assert anybody("GET", "/api/v1/jobs/77.0").json["title"] == "not_found"
    assert anybody("GET", "/api/v1/jobs?constraint=(((").status == 400
    assert anybody("GET", "/api/v1/openapi.json").json["openapi"].startswith("3.")

    description = {
        "executable": "/bin/sh",
        "arguments": "\"-c 'echo over HTTP; sleep 1000'\"",
        "transfer_executable": False,
        "initialdir": str(pool.root),
        "output": "out",
    }
    stolen = user("POST", "/api/v1/jobs", {"description": {**description, "arguments": "$ENV(PATH)"}})
    assert (stolen.status, stolen.json["key"]) == (400, "arguments")
    assert user("POST", "/api/v1/jobs", {"description": {**description, "getenv": "true"}}).json["key"] == "getenv"
    made = user("POST", "/api/v1/jobs", {"description": description})
    cluster = made.json["cluster"]
    assert (made.status, made.headers["location"]) == (201, f"/api/v1/jobs/{cluster}")
    pool.until("its output", lambda: b"over HTTP" in user("GET", f"/api/v1/jobs/{cluster}.0/stdout").body)
    with urllib.request.urlopen(f"{user.base}/api/v1/events", timeout=30) as events:
        assert events.readline() == b"event: jobs\n"
        assert {"job": f"{cluster}.0", "status": 2} in json.loads(events.readline().partition(b": ")[2])
        assert user("POST", "/api/v1/jobs/act", {"action": "remove", "jobs": [str(cluster)]}).status == 200
        changes = (json.loads(line[6:]) for line in events if line.startswith(b"data: "))
        assert any({"job": f"{cluster}.0", "status": None} in change for change in changes)

    page = anybody("GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    found = samples(page.body)
    daemons = {"master", "collector", "negotiator", "schedd", "startd", "starter", "web"}
    up = {dict(labels)["daemon"]: value for (name, labels), value in found.items() if name == "slotwise_scrape_up"}
    assert up.keys() >= daemons and set(up.values()) == {1.0}
    assert found["slotwise_job_runs_total", (("daemon", "schedd"), ("what", "started"))] == 2.0
    assert found["slotwise_matches_total", (("daemon", "negotiator"),)] >= 1.0
    assert found["slotwise_queue_commit_duration_seconds_count", (("daemon", "schedd"),)] > 0
    slots = {labels: value for (name, labels), value in found.items() if name == "slotwise_slots"}
    assert sum(slots.values()) >= 1
    assert found["slotwise_daemon_up", (("daemon", "master"), ("of", "schedd"))] == 1.0


def test_reading_may_need_a_token_too(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(f"{DAEMONS}SLOTWISE_HTTP_READ_WITHOUT_TOKEN = none\n")
    pool.up()
    for path in ("/api/v1/pool", "/metrics", "/api/v1/jobs"):
        assert Caller(pool)("GET", path).status == 401
    token = pool.run("token", "create", "-identity", "reader@here", "-authz", "READ").stdout.strip()
    reader = Caller(pool, token)
    assert reader("GET", "/metrics").status == 200
    refused = reader("POST", "/api/v1/jobs/act", {"action": "remove", "constraint": "true"})
    assert (refused.status, refused.json["title"]) == (403, "denied")
    session = reader("POST", "/api/v1/session")
    cookie = session.headers["set-cookie"].partition(";")[0]
    assert {"HttpOnly", "SameSite=strict"} <= set(session.headers["set-cookie"].replace("; ", ";").split(";"))
    assert Caller(pool)("GET", "/api/v1/pool", Cookie=cookie).json["signed_in"] is True


BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOSTILE = '<img src=x onerror="document.title=1">'


def shown(url: str) -> str:
    """The page's elements after its script has run."""
    words = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=8000",
        "--dump-dom",
        url,
    ]
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run([*words, f"--user-data-dir={profile}"], capture_output=True, text=True, timeout=100)
    return done.stdout


def test_the_page_shows_pool_and_jobs_and_takes_no_ad_for_markup(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    page = anybody("GET", "/")
    assert page.status == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    for name in ("page.js", "page.css", "icon.svg"):
        assert f"/static/{name}".encode() in page.body and anybody("GET", f"/static/{name}").status == 200
    for name in ("index.html", "../api.py", "..%2fapi.py"):
        assert anybody("GET", f"/static/{name}").status == 404
    if BROWSER is None:
        pytest.skip("needs chromium")
    with Collector(env=pool.env) as collector:
        slot = ClassAd({"Name": "slot1@far", "Machine": HOSTILE, "State": "Claimed", "Activity": "Busy", "Cpus": 4})
        assert collector.advertise([slot], "Machine") == []
    with Schedd(env=pool.env) as schedd:
        unmet = {"executable": "/bin/true", "transfer_executable": False, "requirements": "Memory > 10000000"}
        schedd.submit({**unmet, "batch_name": HOSTILE})
    pool.until("the negotiator's view", lambda: anybody("GET", "/api/v1/jobs/1.0/analyze").status == 200)
    pool.until("both machines", lambda: len(anybody("GET", "/api/v1/machines").json) == 2)
    texts = {place: shown(f"{anybody.base}/#/{place}") for place in ("pool", "jobs", "job/1.0", "users", "cycle")}
    assert "cores in use" in texts["pool"] and texts["pool"].count('href="#/machine/') == 2
    assert 'href="#/job/1.0"' in texts["jobs"] and "idle 1" in texts["jobs"]
    assert "Memory &gt; 10000000" in texts["job/1.0"] and "Why it does not run" in texts["job/1.0"]
    for text in texts.values():
        assert "<img" not in text and "That did not work" not in text
    assert "&lt;img" in texts["jobs"]
