"""What users and hosts write into ads, notes, events and outputs, shown in a browser: text, and never a script."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from slotwise.classad import ClassAd
from slotwise.client import Collector, Schedd

from tests.pool.test_web import DAEMONS, Caller
from tests.support.browser import BROWSER, Browser
from tests.support.pool import Pool

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")
#: Each would run where a text is taken for markup, ends an attribute, or becomes an address.
_MARKUP = "\"'><img src=x onerror='window.hit=1'><svg onload='window.hit=1'></svg><script>window.hit=1</script>{{hit}}"
_ADDRESS = "javascript:window.hit=1//"
_PLACES = ("pool", "jobs", "job/1.0", "job/2.0", "users", "cycle", "events", "history", "submit", "dags")
#: Elements that the page has none of, and links that leave it.
_FOREIGN = """[...document.querySelectorAll("img, iframe, object, embed, base, style, [onerror], [onload], [onclick]")]
    .concat([...document.querySelectorAll("script")].filter((one) => !one.src.startsWith(location.origin)))
    .concat([...document.querySelectorAll("[href], [src], [action], [formaction]")].filter((one) =>
        !["", location.origin].includes(new URL(one.getAttribute("href") ?? one.getAttribute("src")
            ?? one.getAttribute("action") ?? one.getAttribute("formaction"), location.href).origin)))
    .map((one) => one.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("text", [_MARKUP, _ADDRESS], ids=["markup", "address"])
def test_no_text_of_a_user_or_a_host_runs_in_a_browser(make_pool: Callable[[str], Pool], text: str) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    said = json.dumps(text)
    attributes = {f"My.{name}": said for name in (
        "JobDescription", "DAGNodeName", "SubmitNotes",
        "UserNotes", "LastHoldReason", "LastRemoteHost", "DAG_NodesTotal", "Iwd2",
    )}  # fmt: skip
    script = pool.root / "loud.sh"
    script.write_text(f"#!/bin/sh\nwhile cat <<'END'\n{text}\nEND\ndo sleep 0.2; done\n")
    script.chmod(0o755)
    common = {
        **attributes,
        "initialdir": str(pool.root),
        "batch_name": text,
        "description": text,
        "transfer_executable": "false",
        "request_memory": "16M",
    }
    with Schedd(env=pool.env) as schedd:
        schedd.submit(
            {
                **common,
                "transfer_executable": "true",
                "executable": str(script),
                "output": "out",
                "error": "err",
                "log": "log",
            }
        )
        argument = "\"'" + text.replace("'", "''").replace('"', '""') + "'\""
        unmet = f"Memory > 10000000 && Arch =?= {said}"
        schedd.submit(
            {
                **common,
                "executable": "/bin/true",
                "arguments": argument,
                "requirements": unmet,
            }
        )
        schedd.submit({**common, "executable": "/bin/sleep", "arguments": "600"})
    pool.run("hold", "3.0", "-reason", text)
    slot = {"Name": "slot1@far", "Machine": text, "State": "Claimed", "Activity": text, "Cpus": 4, "Arch": text,
            "OpSysAndVer": text, "DrainReason": text, "RemoteOwner": text, "JobId": text, "OfflineReason": text,
            "CondorVersion": text, "ClientMachine": text, "AccountingGroup": text, "GPUs": text}  # fmt: skip
    with Collector(env=pool.env) as collector:
        assert collector.advertise([ClassAd(slot)], "Machine") == []
    pool.until("it runs", lambda: anybody("GET", "/api/v1/jobs/1.0?projection=JobStatus").json[0]["JobStatus"] == 2)
    pool.until("the negotiator's view", lambda: anybody("GET", "/api/v1/jobs/2.0/analyze").status == 200)
    owner = anybody("GET", "/api/v1/jobs/1.0").json[0]["User"]
    rights = [word for right in ("READ", "WRITE", "ADMINISTRATOR") for word in ("-authz", right)]
    token = pool.run("token", "create", "-identity", owner, *rights).stdout.strip()
    machines = [cell["machine"] for cell in anybody("GET", "/api/v1/machines").json["cells"] if "machine" in cell]
    with Browser() as page:
        page.open(f"{anybody.base}/#/jobs")
        page.until("document.querySelector('main h1') !== null")
        page.click("#sign")
        page.run(f"document.getElementById('token').value = {json.dumps(token)}")
        page.click("#signing button.primary")
        page.until(f"document.getElementById('who').textContent === {json.dumps(owner)}")
        shown = ""
        links = page.run("[...document.querySelectorAll('main a')].map((one) => one.getAttribute('href'))")
        for place in (
            *(f"#/{one}" for one in (*_PLACES, "job/3.0")),
            *(f"#/machine/{name}" for name in machines),
            *links,
        ):
            page.run("location.hash = '#/nowhere'")
            page.run(f"location.hash = {json.dumps(place.removeprefix('#'))}")
            page.until("document.querySelector('main h1') !== null")
            if place == "#/job/1.0":
                page.until("document.querySelector('pre')?.textContent.length > 0")
            if place == "#/events":
                page.until("document.querySelector('main').innerText.length > 40")
            assert page.run("window.hit") is None, place
            assert page.run(_FOREIGN) == [], place
            shown += page.run("document.body.innerText")
        assert "window.hit=1" in shown, "the texts are shown"
