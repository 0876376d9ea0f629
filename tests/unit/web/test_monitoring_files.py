"""The files for Prometheus and Grafana, and the guide: every metric that they name is one that a daemon has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import slotwise
import yaml

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "packaging" / "monitoring"
#: What the formats add to the name of a family.
SUFFIX = re.compile(r"_(?:bucket|count|sum|total)$")
#: Made by the Prometheus library for the process.
OF_THE_LIBRARY = "slotwise_process_"


def metrics_in(text: str) -> set[str]:
    names = {name.rstrip("_") for name in re.findall(r"slotwise_[a-z_]*[a-z]", text)}
    return {name for name in names if not f"{name}_".startswith(OF_THE_LIBRARY)}


def declared() -> set[str]:
    sources = Path(slotwise.__file__).parent.rglob("*.py")
    return {name for path in sources for name in re.findall(r'"(slotwise_[a-z_]+)"', path.read_text())}


def test_every_metric_that_the_files_and_the_guide_name_is_there() -> None:
    known = declared()
    texts = [MONITORING / "slotwise.rules.yml", MONITORING / "grafana-dashboard.json", ROOT / "docs/guides/web.md"]
    for path in texts:
        named = metrics_in(path.read_text())
        assert len(named) > 5
        assert {SUFFIX.sub("", name) for name in named} <= {SUFFIX.sub("", name) for name in known}, path


def test_alerts_have_an_expression_and_say_what_is_wrong() -> None:
    (group,) = yaml.safe_load((MONITORING / "slotwise.rules.yml").read_text())["groups"]
    for rule in group["rules"]:
        assert rule["alert"].startswith("Slotwise") and rule["expr"] and rule["annotations"]["summary"]


def test_the_dashboard_has_a_query_in_each_panel() -> None:
    panels = json.loads((MONITORING / "grafana-dashboard.json").read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) >= 10
    assert all(target["expr"] for panel in panels for target in panel["targets"])
