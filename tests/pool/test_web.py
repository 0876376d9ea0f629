"""The web service of a running pool: the API through a job's life, and metrics of its daemons, over plain HTTP."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from slotwise.classad import ClassAd
from slotwise.client import Collector, Schedd
from slotwise.web.api import STATIC

from tests.support import host
from tests.support.browser import BROWSER, Browser
from tests.support.pool import Pool
from tests.support.waiting import LIMIT_S

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
        log = pool.home.log / "WebLog"
        serving = re.compile(r"serving (http://127\.0\.0\.1:\d+)/")
        # The daemon answers before its pages do.
        found = pool.until("the service serves", lambda: serving.findall(log.read_text()))
        self.base, self.token = found[-1], token

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self.base + path, data, given, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=LIMIT_S) as reply:
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
    strange = anybody("GET", f"/api/v1/jobs/{cluster}.0/stdout")
    assert strange.status == 401 and "token fetch" in strange.json["hint"]
    with urllib.request.urlopen(f"{user.base}/api/v1/events", timeout=LIMIT_S) as events:
        assert events.readline() == b"event: jobs\n"
        assert {"job": f"{cluster}.0", "status": 2} in json.loads(events.readline().partition(b": ")[2])
        assert user("POST", "/api/v1/jobs/act", {"action": "remove", "jobs": [str(cluster)]}).status == 200
        changes = (json.loads(line[6:]) for line in events if line.startswith(b"data: "))
        assert any({"job": f"{cluster}.0", "status": None} in change for change in changes)
    gone = pool.until("its past", lambda: _where_it_wrote(anybody, f"{cluster}.0"))
    assert gone == f"what it has written comes to {pool.root}/out at the access point"

    page = anybody("GET", "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    found = samples(page.body)
    daemons = {"master", "collector", "negotiator", "schedd", "startd", "starter", "web"}
    up = {dict(labels)["daemon"]: value for (name, labels), value in found.items() if name == "slotwise_scrape_up"}
    assert up.keys() >= daemons and set(up.values()) == {1.0}
    assert found["slotwise_job_runs_total", (("daemon", "schedd"), ("what", "started"))] == 2.0
    assert found["slotwise_matches_total", (("daemon", "negotiator"),)] >= 1.0
    assert found["slotwise_queue_commit_duration_seconds_count", (("daemon", "schedd"),)] > 0
    for family, daemon in (("slotwise_negotiation_cycle_duration", "negotiator"), ("slotwise_queue_commit", "schedd")):
        of = {dict(labels)["daemon"] for name, labels in found if name.startswith(family)}
        assert of == {daemon}, "no daemon reports what another one does"
    cores = [value for (name, _), value in found.items() if name == "slotwise_slot_cores"]
    assert sum(cores) == 4
    slots = {labels: value for (name, labels), value in found.items() if name == "slotwise_slots"}
    assert sum(slots.values()) >= 1
    assert found["slotwise_daemon_up", (("daemon", "master"), ("of", "schedd"))] == 1.0


def test_a_machine_is_drained_over_http_by_who_may(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(
        f"{DAEMONS}GROUP_NAMES = physics, physics.cms\nGROUP_QUOTA_physics = 2\nGROUP_QUOTA_physics.cms = 1\n"
    )
    pool.up()
    anybody = Caller(pool)
    machine = pool.until("slots", lambda: anybody("GET", "/api/v1/slots?projection=Machine").json)[0]["Machine"]
    pool.until("the map", lambda: anybody("GET", "/api/v1/machines").json["whole"]["cores"] == {"unclaimed": 4})
    writer = Caller(pool, pool.run("token", "create", "-identity", "bob@here", "-authz", "WRITE").stdout.strip())
    drain = f"/api/v1/machines/{machine}/drain"
    assert anybody("POST", drain, {}).status == 401
    assert writer("POST", drain, {"reason": "x"}).json["title"] == "denied"
    token = pool.run("token", "create", "-identity", "admin@here", "-authz", "ADMINISTRATOR").stdout.strip()
    admin = Caller(pool, token)
    refused: list[dict[str, object]] = [{"schedule": "some day"}, {"schedule": {}}, {"reason": 7}]
    for wrong in refused:
        assert admin("POST", drain, wrong).json["title"] == "usage"
    assert admin("POST", "/api/v1/machines/nowhere/drain", {}).status == 404
    assert admin("POST", drain, {"reason": "new disks"}).json["request"]
    pool.until("the drain", lambda: anybody("GET", "/api/v1/slots").json[0].get("DrainReason") == "new disks")
    assert admin("DELETE", drain).json == {"cancelled": True}
    pool.until("its end", lambda: anybody("GET", "/api/v1/slots").json[0]["State"] == "Unclaimed")
    groups = {ad["Name"]: ad["ConfigQuota"] for ad in anybody("GET", "/api/v1/groups").json}
    assert (groups["physics"], groups["physics.cms"]) == (2.0, 1.0)
    assert anybody("GET", "/api/v1/negotiators").json[0]["MyType"] == "Negotiator"


CURL = shutil.which("curl")


class Curl:
    """The guide's way: curl with the header in a file, so that no list of processes shows the token."""

    def __init__(self, pool: Pool, base: str, token: str) -> None:
        self.base, self.header = base, pool.root / f"header-{uuid4().hex}"
        self.header.write_text(f"Authorization: Bearer {token}\n")

    def words(self, path: str, *more: str) -> list[str]:
        return [str(CURL), "-sS", "-H", f"@{self.header}", *more, f"{self.base}/{path}"]

    def asked(self, path: str, body: object = None, *more: str) -> Reply:
        data = [] if body is None else ["-d", json.dumps(body)]
        words = self.words(path, "--max-time", "30", "-i", *data, *more)
        done = subprocess.run(words, capture_output=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        head, _, text = done.stdout.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return Reply(int(status.split()[1]), headers, text)

    def __call__(self, path: str, body: object = None) -> Any:
        reply = self.asked(path, body)
        assert reply.status < 300, reply
        return reply.json


@host.needs(host.programs("curl"))
def test_curl_alone_takes_a_job_through_its_life(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    token = pool.run("token", "create", "-identity", "root@here", "-authz", "WRITE").stdout.strip()
    curl = Curl(pool, f"{Caller(pool).base}/api/v1", token)
    pool.until("slots", lambda: curl("slots"))
    described = curl("openapi.json")["paths"]
    assert {"get", "post"} <= described["/api/v1/jobs"].keys()
    pool.until("the schedd's ad", lambda: curl("schedds?projection=Name"))

    seen: list[dict[str, Any]] = []
    events = subprocess.Popen(curl.words("events", "-N"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert events.stdout is not None

    def follow(job: str, status: int | None) -> None:
        """Read the stream until it has said so; it ends only when curl does."""
        while {"job": job, "status": status} not in seen:
            line = events.stdout.readline() if events.stdout else b""
            assert line, f"the stream ended: {seen}"
            if line.startswith(b"data: "):
                seen.extend(json.loads(line[6:]))

    watchdog = threading.Timer(LIMIT_S, events.kill)
    watchdog.start()
    try:
        description = {"executable": "/bin/sh", "arguments": "\"-c 'echo by curl; sleep 1000'\"",
                       "initialdir": str(pool.root), "transfer_executable": False, "output": "out"}  # fmt: skip
        made = curl.asked("jobs", {"description": description})
        assert made.status == 201
        job = f"{made.json['cluster']}.0"
        assert curl.asked(made.headers["location"].removeprefix("/api/v1/")).status == 200
        follow(job, 2)
        pool.until("its output", lambda: b"by curl" in curl.asked(f"jobs/{job}/stdout").body)
        unkept = curl.asked(f"jobs/{job}/stderr")
        assert (unkept.status, unkept.json["hint"]) == (404, "error = FILE in the description"), unkept
        assert curl("jobs/act", {"action": "hold", "jobs": [job], "reason": "wait"}) == {"success": 1}
        follow(job, 5)
        assert "wait" in curl(f"jobs/{job}?projection=HoldReason")[0]["HoldReason"]
        edit = {"JobPrio": "7", "Requirements": "Memory > 10000000"}
        assert curl("jobs/edit", {"jobs": [job], "attributes": edit}) == {"success": 1}
        assert curl(f"jobs/{job}?projection=JobPrio")[0]["JobPrio"] == 7
        assert curl("jobs/act", {"action": "release", "jobs": [job]}) == {"success": 1}
        follow(job, 1)
        assert pool.until("the demand", lambda: curl("demand")["jobs"]) == 1
        clauses = curl(f"jobs/{job}/analyze")["requirements"]["clauses"]
        assert [clause["passes"] for clause in clauses if "10000000" in clause["clause"]] == [0]
        assert curl("jobs/edit", {"jobs": [job], "attributes": {"Requirements": "true"}}) == {"success": 1}
        seen.clear()
        follow(job, 2)
        assert curl(f"jobs/{job}/runs")[0]["RunInstanceID"] == 0
        assert curl("jobs/act", {"action": "remove", "jobs": [job]}) == {"success": 1}
        follow(job, None)
    finally:
        watchdog.cancel()
        events.kill()
        events.wait()
        events.stdout.close()
    cluster = job.partition(".")[0]
    pool.until("the history", lambda: curl(f"history?constraint=ClusterId=={cluster}&projection=JobStatus"))
    assert curl(f"jobs/{job}")[0]["JobStatus"] == 3 and curl("jobs") == []

    # What is wrong is said as problem+json, with what to do about it.
    wrong: tuple[tuple[Reply, int, str], ...] = (
        (curl.asked("jobs/77.0"), 404, "not_found"),
        (curl.asked("jobs?constraint=((("), 400, "ad_syntax"),
        (curl.asked("jobs?limit=many"), 400, "usage"),
        (curl.asked("jobs/act", {"action": "dance", "jobs": ["1.0"]}), 400, "usage"),
        (curl.asked("jobs/act", {"action": "hold", "jobs": ["77.0"]}), 404, "not_found"),
        (curl.asked("jobs/edit", {"jobs": ["1.0"], "attributes": {"A": "((("}}), 400, ""),
        (curl.asked("jobs", {"description": {**description, "getenv": "true"}}), 400, ""),
        (curl.asked("jobs", None, "-d", "not JSON"), 400, "usage"),
        (curl.asked("machines/nowhere/drain", {}), 404, "not_found"),
        (curl.asked("jobs", None, "-X", "DELETE"), 405, ""),
        (curl.asked("nonsense"), 404, ""),
    )
    for reply, status, title in wrong:
        assert (reply.status, reply.headers["content-type"]) == (status, "application/problem+json"), reply
        assert reply.json["status"] == status and reply.json["detail"], reply
        assert not title or reply.json["title"] == title, reply


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


HOSTILE = '<img src=x onerror="document.title=1">'


def shown(page: Browser, url: str) -> str:
    """The page's elements after its script has run."""
    page.open("about:blank")  # of addresses that differ after the # alone, the second would show what the first did
    page.open(url)
    page.until("document.querySelector('main h1') !== null")
    elements: str = page.run("document.documentElement.outerHTML")
    return elements


def test_the_page_shows_pool_and_jobs_and_takes_no_ad_for_markup(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    page = anybody("GET", "/")
    assert page.status == 200 and "default-src 'self'" in page.headers["content-security-policy"]
    for name in ("page.js", "page.css", "icon.svg"):
        assert f"/static/{name}".encode() in page.body
    for file in STATIC.iterdir():
        if file.suffix != ".html":
            assert anybody("GET", f"/static/{file.name}").body == file.read_bytes()
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
    pool.until("both machines", lambda: len(anybody("GET", "/api/v1/machines").json["cells"]) == 2)
    places = ("pool", "jobs", "job/1.0", "users", "cycle", "events", "history", "submit")
    with Browser() as browser:
        texts = {place: shown(browser, f"{anybody.base}/#/{place}") for place in places}
    assert "cores in use" in texts["pool"] and texts["pool"].count('href="#/machine/') == 2
    assert 'href="#/job/1.0"' in texts["jobs"] and "idle 1" in texts["jobs"]
    assert "Memory &gt; 10000000" in texts["job/1.0"] and "Why it does not run" in texts["job/1.0"]
    for text in texts.values():
        assert "<img" not in text and "That did not work" not in text
    assert "&lt;img" in texts["jobs"] and "&lt;img" in texts["events"]
    assert "Sign in to submit" in texts["submit"] and "No job has left the queue" in texts["history"]


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_who_signs_in_on_the_page_follows_jobs_and_drains_machines(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    writes = "i=0; while sleep 0.2; do i=$((i + 1)); echo line $i; done"
    with Schedd(env=pool.env) as schedd:
        common = {"executable": "/bin/sh", "transfer_executable": False, "batch_name": "a 'sweep'"}
        schedd.submit({**common, "arguments": f"\"-c '{writes}'\"", "output": "out"})
        schedd.submit({**common, "arguments": "\"-c 'exit 0'\""})
        schedd.submit({**common, "requirements": "false"})
    job = pool.until(
        "the end of one", lambda: anybody("GET", "/api/v1/history").json and anybody("GET", "/api/v1/jobs/1.0").json
    )[0]
    assert anybody("GET", "/api/v1/batches?mine=1").status == 401
    batch = {
        "name": "a 'sweep'",
        "user": job["User"],
        "jobs": 2,
        "submitted": None,
        "done": None,
        "counts": {"1": 1, "2": 1},
    }
    pool.until("the batch", lambda: anybody("GET", "/api/v1/batches").json == {"batches": [batch], "left_out": 0})
    pool.until("the demand", lambda: anybody("GET", "/api/v1/demand").json["jobs"] == 1)
    words = ("READ", "WRITE", "ADMINISTRATOR")
    rights = [word for right in words for word in ("-authz", right)]
    token = pool.run("token", "create", "-identity", job["User"], *rights).stdout.strip()
    with Browser() as page:
        page.open(f"{anybody.base}/#/jobs")
        page.until("document.querySelector('main h1') && document.body.innerText.includes('Batches')")
        page.click("#sign")
        page.run(f"document.getElementById('token').value = {json.dumps(token)}")
        page.click("#signing button.primary")
        # Of the jobs of two clusters in the queue: the third has left it.
        page.until("document.querySelector('main').innerText.includes('Your batches')")
        page.until(f"document.getElementById('who').textContent === {json.dumps(job['User'])}")
        page.until("[...document.querySelectorAll('.bar')].some((one) => one.title === '1 running, 1 idle')")
        page.click("main button", "show jobs")
        page.until("document.querySelector('main').innerText.includes('2 jobs')")

        page.run("location.hash = '#/job/1.0'")
        written = "document.querySelector('pre')?.textContent"
        length = page.until(f"{written}?.includes('line 1') && {written}.length")
        page.run("document.querySelector('button.danger').focus()")
        page.until(f"document.querySelector('pre').textContent.length > {length}")
        page.until("document.activeElement.textContent === 'remove'")
        page.until("document.querySelector('pre').scrollHeight > document.querySelector('pre').clientHeight + 20")
        page.until("((one) => one.scrollTop + one.clientHeight >= one.scrollHeight - 8)(document.querySelector('pre'))")

        page.run("location.hash = '#/pool'")
        page.until("document.querySelector('main').innerText.includes('Unmet demand')")
        page.run("document.querySelector('.grid a').click()")
        page.click("main button.danger", "drain")
        page.run("document.getElementById('answer').value = 'new disks'")
        page.click("dialog button.danger", "Drain")
        page.until("document.querySelector('main').innerText.includes('new disks')")
        assert anybody("GET", "/api/v1/slots").json[0]["DrainReason"] == "new disks"
        page.click("main button", "take back into service")
        page.until("document.querySelector('main').innerText.includes('in service')")
        page.click("#sign", "Sign out")
        page.until("document.querySelector('button.danger')?.disabled")


def _where_it_wrote(caller: Caller, job: str) -> str:
    """The hint of the refusal to show the output of a job that has ended."""
    refused = caller("GET", f"/api/v1/jobs/{job}/stdout")
    assert refused.status == 404 and "there is no stdout to follow" in refused.json["detail"], refused
    return str(refused.json["hint"])


def test_lists_come_in_pages_and_a_bad_cursor_is_said(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    with Schedd(env=pool.env) as schedd:
        idle = {"executable": "/bin/true", "transfer_executable": False, "requirements": "false"}
        schedd.submit({**idle, "priority": "$(Process)"}, count=7)
        schedd.submit({**idle, "priority": "3"})
    pool.until("the schedd's ad", lambda: anybody("GET", "/api/v1/schedds").json)

    def pages(path: str) -> list[list[str]]:
        found = []
        while path:
            reply = anybody("GET", path)
            assert reply.status == 200, reply
            found.append([f"{job['ClusterId']}.{job['ProcId']}" for job in reply.json])
            link = re.fullmatch('<(.*)>; rel="next"', reply.headers.get("link", ""))
            path = link[1] if link else ""
        return found

    ids = "projection=ClusterId,ProcId&limit=3"
    assert pages(f"/api/v1/jobs?order=-JobPrio&{ids}") == [["1.6", "1.5", "1.4"], ["1.3", "2.0", "1.2"], ["1.1", "1.0"]]
    assert pages(f"/api/v1/jobs?order=id&constraint=ProcId%3C2&{ids}") == [["1.0", "1.1", "2.0"]]
    both = "constraint=ProcId%3C2&constraint=ClusterId%3D%3D2%20%7C%7C%20false"
    assert pages(f"/api/v1/jobs?order=id&{both}&{ids}") == [["2.0"]]
    single = anybody("GET", "/api/v1/jobs?constraint=ProcId%3D2&constraint=true").json
    assert "'ProcId=2'" in single["detail"] and single["hint"] == "`==` compares"
    for wrong in ("order=1%2B1", "order=id&after=nonsense", "order=id&limit=5000"):
        refused = anybody("GET", f"/api/v1/jobs?{wrong}")
        assert (refused.status, refused.json["title"]) == (400, "usage"), wrong
    assert anybody("GET", "/api/v1/jobs?mine=1").status == 401
    nothing = anybody("GET", "/api/v1/jobs/1.0/stdout")
    assert (nothing.status, nothing.json["hint"]) == (404, "it has not run yet")
    bob = Caller(pool, pool.run("token", "create", "-identity", "bob@elsewhere", "-authz", "WRITE").stdout.strip())
    denied = bob("POST", "/api/v1/jobs/act", {"action": "hold", "jobs": ["1.0"]})
    assert (denied.status, denied.json["title"]) == (403, "denied")
    each = bob("POST", "/api/v1/jobs/act", {"action": "hold", "jobs": ["1.0", "77.0"], "results": True}).json
    assert each["jobs"] == {"1.0": "permission_denied", "77.0": "not_found"}
    assert bob("GET", "/api/v1/jobs?mine=1").json == [] and bob("GET", "/api/v1/pool").json["user"] == "bob@elsewhere"
    with Schedd(env=pool.env) as schedd:
        assert schedd.act("remove", "true").succeeded == 8
    pool.until("the history", lambda: len(anybody("GET", "/api/v1/history").json) == 8)
    assert _where_it_wrote(anybody, "1.0") == "nothing of it is kept: output = FILE in the description"
    past = pages(f"/api/v1/history?{ids}")
    assert [len(page) for page in past] == [3, 3, 2] and len({job for page in past for job in page}) == 8
    long = anybody("GET", "/api/v1/history?projection=ProcId&limit=100000")
    assert "link" not in long.headers and len(long.json) == 8
    samples = pool.until("a look at the pool", lambda: anybody("GET", "/api/v1/trend").json["samples"])
    assert samples[0]["jobs"].keys() == {"idle", "running", "held"}
    grouped = anybody("GET", "/api/v1/machines?group=OpSys").json["cells"]
    assert [cell["group"] for cell in grouped] == ["LINUX"]
    assert anybody("GET", "/api/v1/machines?group=1%2B1").status == 400


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_jobs_are_submitted_chosen_and_held_on_the_page(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    token = pool.run("token", "fetch").stdout.strip()
    text = (
        f"executable = /bin/true\ntransfer_executable = false\ninitialdir = {pool.root}\n"
        "request_memory = 999T\narguments = $(x)\nqueue x in (a, b, c)\n"
    )
    with Browser() as page:
        said = "document.querySelector('main')?.innerText ?? ''"
        page.open(f"{anybody.base}/#/jobs")
        page.until(f"({said}).includes('The queue is empty')")
        page.click("#sign")
        page.run(f"document.getElementById('token').value = {json.dumps(token)}")
        page.click("#signing button.primary")
        page.click("main a", "Submit jobs")

        def write(description: str) -> None:
            page.until("!!document.getElementById('description')")
            field = "document.getElementById('description')"
            page.run(f"{field}.value = {json.dumps(description)}; {field}.dispatchEvent(new Event('input'))")

        write(text.replace("request_memory", "getenv"))
        page.click("main button", "Preview")
        page.until("document.getElementById('found').innerText.includes('line 4')")
        page.until("getSelection().toString().startsWith('getenv') || document.activeElement.selectionStart > 0")
        write(text)
        page.click("main button", "Preview")
        page.until("document.getElementById('found').innerText.includes('This queues 3 jobs')")
        page.until("document.getElementById('found').innerText.includes('largest is')")
        page.click("main button", "Submit")
        page.until("document.querySelectorAll('input[data-job]').length === 3")
        assert [job["Args"] for job in anybody("GET", "/api/v1/jobs").json] == ["a", "b", "c"]

        page.click("th button.sort", "Job")
        page.until("location.hash.includes('order=-id') && !!document.querySelector('th[aria-sort=descending]')")
        rows = "[...document.querySelectorAll('input[data-job]')]"
        page.until(f"{rows}.map((one) => one.dataset.job).join() === '1.2,1.1,1.0'")
        page.run(f"{rows}.slice(0, 2).forEach((one) => one.click())")
        page.click("main button[data-act=hold]")
        page.run("document.getElementById('answer').value = 'wait for data'")
        page.click("dialog button.primary", "hold")
        page.until(f"({said}).includes('wait for data')")
        held = anybody("GET", "/api/v1/jobs?order=id&constraint=JobStatus%3D%3D5&projection=ProcId").json
        assert [job["ProcId"] for job in held] == [1, 2]
        page.run("location.hash = '#/job/1.2'")
        page.until(f"({said}).includes('Hold code 1, subcode 0.') && ({said}).includes('What to do: ')")
        page.run("history.back()")
        page.until("document.querySelectorAll('input[data-job]').length === 3")
        page.run(f"{rows}.slice(0, 2).forEach((one) => one.click())")
        page.run("document.getElementById('whole').click()")
        page.click("main button[data-act=remove]")
        page.click("dialog button.danger", "remove")
        page.until(f"({said}).includes('No jobs')")
        page.run("location.hash = '#/history'")
        page.until(f"({said}).includes('3 jobs on this page')")


#: What the page makes of values: the function of words.js, its arguments, and the text.
WORDS: list[tuple[str, list[Any], str]] = [
    ("duration", [0], "0 s"), ("duration", [59.9], "59 s"), ("duration", [3725], "1 h 2 min"),
    ("duration", [86400 * 3 + 5], "3 d"), ("bytes", [1536], "1.5 KiB"), ("bytes", [0], "0 B"),
    ("mebibytes", [10485760], "10 TiB"), ("valueOf", ["JobStatus", 5], "on hold"),
    ("valueOf", ["RequestMemory", 2048], "2 GiB"), ("valueOf", ["DiskUsage", 35], "35 KiB"),
    ("valueOf", ["RequestDisk", "/Expr(MAX({ 1024,(Size + 1) * 1.250000000000000E+00 }) * 1024)/"],
     "MAX({ 1024,(Size + 1) * 1.25 }) * 1024"),
    ("valueOf", ["RemoteWallClockTime", 90], "1 min 30 s"), ("valueOf", ["ExitBySignal", False], "no"),
    ("valueOf", ["EnforcementGaps", []], "none"), ("valueOf", ["EnforcementGaps", ["memory", "cpu"]], "memory, cpu"),
    ("valueOf", ["ExpectedMachineGracefulDrainingBadput", 3600], "1 h"),
    ("reason", [{"JobStatus": 5, "HoldReason": "no input"}], "no input"),
    ("reason", [{"JobStatus": 2, "RemoteHost": "slot1@a"}], "on slot1@a"),
    ("reason", [{"JobStatus": 1, "QDate": 9}, {}], "waits for the next negotiation cycle"),
    ("reason", [{"JobStatus": 1, "QDate": 9, "EnteredCurrentStatus": 9, "User": "a@d"},
                {"started_at": 10, "rejections": [{"submitter": "a@d", "reason": "no match found"}]}],
     "no match found"),
    ("reason", [{"JobStatus": 1, "QDate": 9, "EnteredCurrentStatus": 9, "User": "b@d"},
                {"started_at": 10, "rejections": [{"submitter": "a@d", "reason": "no match found"}]}],
     "waits for a slot"),
    ("reason", [{"JobStatus": 1, "LastRejMatchReason": "old", "LastRejMatchTime": 3, "EnteredCurrentStatus": 9,
                 "NumJobStarts": 1, "LastVacateReason": "preempted"}], "waits again: preempted"),
    ("ended", [{"ExitCode": 3, "ExitBySignal": False}], "exit code 3"), ("ended", [{"ExitSignal": 9}],
                                                                          "ended by signal 9"),
    ("quoted", ['a "b" \\'], '"a \\"b\\" \\\\"'), ("words", ["surplusPolicy_s"], "surplus policy"),
]  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_values_are_shown_in_words_and_units(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    with Browser() as page:
        page.open(f"{Caller(pool).base}/#/events")
        page.until("!!document.querySelector('main h1')")
        calls = json.dumps([[name, arguments] for name, arguments, _ in WORDS])
        shown = page.run(
            f"import('/static/words.js').then((words) => {calls}.map(([name, all]) => String(words[name](...all))))"
        )
    assert shown == [text for _, _, text in WORDS]
