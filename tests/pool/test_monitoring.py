"""The files for Prometheus and Grafana with a real Prometheus and a real pool: rules load, every panel has data."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.pool.test_web import DAEMONS, Caller
from tests.support import host
from tests.support.pool import Pool
from tests.support.ports import free_port
from tests.support.waiting import LIMIT_S

MONITORING = Path(__file__).resolve().parents[2] / "packaging" / "monitoring"
PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")


@host.needs(host.programs("promtool"))
def test_promtool_accepts_rules_and_configuration() -> None:
    for kind, name in (("rules", "slotwise.rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(
            [str(PROMTOOL), "check", kind, name], cwd=MONITORING, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stdout + done.stderr


class Prometheus:
    """A running Prometheus with our rules that scrapes one address every second."""

    def __init__(self, where: Path, target: str) -> None:
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (scrape,) = config["scrape_configs"]
        scrape["static_configs"] = [{"targets": [target]}]
        where.mkdir()
        shutil.copy(MONITORING / "slotwise.rules.yml", where)
        (where / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.base = f"http://127.0.0.1:{free_port()}"
        words = [str(PROMETHEUS), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
                 f"--web.listen-address={self.base.removeprefix('http://')}"]  # fmt: skip
        self.process = subprocess.Popen(words, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path: str, **words: str) -> Any:
        """What it answers; None while it does not."""
        try:
            with urllib.request.urlopen(
                f"{self.base}/api/v1/{path}?{urllib.parse.urlencode(words)}", timeout=LIMIT_S
            ) as reply:
                return json.load(reply)["data"]
        except OSError:
            return None

    def has(self, expression: str) -> bool:
        """Whether the expression has a value now."""
        found = self.ask("query", query=expression)
        return bool(found and found["result"])


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], Prometheus]]:
    started: list[Prometheus] = []

    def start(target: str) -> Prometheus:
        started.append(Prometheus(tmp_path / "prometheus", target))
        return started[-1]

    yield start
    for one in started:
        one.process.terminate()
        one.process.wait(LIMIT_S)


@host.needs(host.programs("prometheus"))
def test_every_rule_loads_and_every_panel_of_the_dashboard_has_data(
    make_pool: Callable[[str], Pool], prometheus: Callable[[str], Prometheus]
) -> None:
    pool = make_pool(f"{DAEMONS}NEGOTIATOR_INTERVAL = 5\n")
    pool.up()
    job = "executable = /bin/sh\narguments = \"-c 'sleep 2; echo done'\"\ntransfer_executable = false\n"
    (pool.root / "jobs.sub").write_text(
        f"{job}output = out\nshould_transfer_files = YES\nqueue 2\nrequirements = Memory > 10000000\nqueue\n"
    )
    pool.run("submit", "jobs.sub")
    said = Caller(pool)("GET", "/metrics").body
    assert b"_created" not in said and b"slotwise_slot_memory_bytes" in said
    if PROMTOOL is not None:
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=said, capture_output=True, timeout=LIMIT_S)
        assert checked.returncode == 0, checked.stdout + checked.stderr
    server = prometheus(Caller(pool).base.removeprefix("http://"))
    pool.until("a scrape", lambda: server.has("slotwise_scrape_up == 1"))
    rules = pool.until("the rules", lambda: (server.ask("rules") or {}).get("groups"))[0]["rules"]
    written = yaml.safe_load((MONITORING / "slotwise.rules.yml").read_text())["groups"][0]["rules"]
    assert {rule["name"] for rule in rules} == {rule["alert"] for rule in written}
    pool.until(
        "the rules' evaluation",
        lambda: all(rule["health"] == "ok" for rule in server.ask("rules")["groups"][0]["rules"]),
    )
    assert {rule["state"] for rule in server.ask("rules")["groups"][0]["rules"]} <= {"inactive", "pending"}
    targets = server.ask("targets")["activeTargets"]
    assert [(target["health"], target["lastError"]) for target in targets] == [("up", "")]
    for panel in json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            pool.until(f"{panel['title']}: {expression}", lambda expression=expression: server.has(expression))
