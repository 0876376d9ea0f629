"""What can be told of the page without a browser: contrast in both themes, names for those who do not see it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from slotwise.web.access import Gate
from slotwise.web.api import STATIC, application
from slotwise.web.machines import cores_by_state, gathered, machines_of, whole_pool
from slotwise.web.trend import Trend

from tests.unit.web.test_api import Own

STYLE = (STATIC / "page.css").read_text()
THEMES = [
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)
]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2, 1.4.3)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "card"])
def test_text_can_be_read_on_its_ground(theme: dict[str, str], ground: str) -> None:
    for ink in ("ink", "quiet", "accent", "bad", "warn"):
        assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
    assert contrast(theme["on-accent"], theme["accent"]) >= 4.5


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_lines_of_charts_stand_out_from_their_ground(theme: dict[str, str]) -> None:
    for colour in ("claimed", "preempting"):
        assert contrast(theme[colour], theme["card"]) >= 2.5, colour
    assert contrast(theme["claimed"], theme["unclaimed"]) >= 1.3


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_page_has_a_language_landmarks_a_way_past_the_menu_and_labels() -> None:
    page = Elements()
    page.feed((STATIC / "index.html").read_text())
    by_tag = dict(page.found)
    assert by_tag["html"]["lang"] == "en" and {"header", "nav", "main", "title"} <= by_tag.keys()
    first_link = next(attributes for tag, attributes in page.found if tag == "a")
    assert first_link["href"] == f"#{by_tag['main']['id']}"
    assert by_tag["nav"]["aria-label"] and by_tag["dialog"]["aria-labelledby"]
    labelled = {attributes["for"] for tag, attributes in page.found if tag == "label"}
    assert {attributes["id"] for tag, attributes in page.found if tag in ("input", "textarea", "select")} <= labelled
    assert any(attributes.get("aria-live") == "polite" for _, attributes in page.found)
    assert all(int(attributes.get("tabindex") or 0) <= 0 for _, attributes in page.found)


def test_nothing_of_the_page_makes_markup_from_text_or_asks_other_hosts() -> None:
    script = "".join(file.read_text() for file in STATIC.glob("*.js"))
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://"):
        assert way not in script, way


def slot(machine: str, state: str, cpus: object, **more: object) -> dict[str, object]:
    return {"Machine": machine, "State": state, "Cpus": cpus, "Count": 1, **more}


def test_a_map_has_no_more_cells_than_are_asked_for_and_loses_no_core() -> None:
    slots = [slot(f"m{number:03}", "Claimed", number % 4) for number in range(250)]
    slots += [slot("m000", "Unclaimed", 3), slot("m001", "Strange", "many"), slot("m002", "Claimed", 8, Offline=True)]
    slots += [slot("m003", "Claimed", 2, SlotBrokenReason="x"), slot("m004", "Backfill", 3, Count=5)]
    each = machines_of(slots)
    assert (len(each), each[0].machine, each[0].cores) == (250, "m000", {"claimed": 0, "unclaimed": 3})
    assert each[1].cores["other"] == 0 and each[2].cores["offline"] == 8 and each[3].cores["broken"] == 2
    assert each[4].cores["backfill"] == 15 and each[4].slots == 6
    few = gathered(each, 100)
    assert len(few) == 84 and few[0].machines == 3
    assert whole_pool(few).cores == whole_pool(each).cores == cores_by_state(slots)
    assert whole_pool(few).slots == len(slots) + 4 and whole_pool([]).machines == 0


def test_a_service_for_metrics_has_nothing_else() -> None:
    app = application({}, Gate(Own(), "all"), None, Trend(), "metrics")  # type: ignore[arg-type]
    assert {getattr(route, "path", "") for route in app.routes} == {"/metrics"}
