"""The page on a phone, a tablet and a wide screen, light and dark: it fits, names all, and a keyboard is enough."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slotwise.client import Schedd

from tests.pool.test_web import DAEMONS, Caller
from tests.support.browser import BROWSER, Browser
from tests.support.pool import Pool

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")

WIDTHS = {390: 844, 820: 1180, 1440: 900}
#: What people act on, as screen readers call it.
ACTED_ON = ("button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "listbox", "tab", "menuitem")
#: Elements that reach beyond the window and cannot be scrolled to within one of their own.
BEYOND = """(() => {
    const wide = document.documentElement.clientWidth;
    const scrolled = (one) => {
        for (let at = one; at; at = at.parentElement) {
            if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
        }
        return false;
    };
    return [...document.body.querySelectorAll("*")]
        .filter((one) => one.getBoundingClientRect().right > wide + 1 && !scrolled(one))
        .map((one) => one.outerHTML.slice(0, 200));
})()"""
#: Values of attributes that somebody has to scroll for.
OUT_OF_SIGHT = """[...document.querySelectorAll("table")]
    .filter((one) => one.offsetParent && one.tHead.innerText.split(/\\s+/).join(" ").trim() === "Name Value")
    .flatMap((one) => [...one.querySelectorAll("td:last-child")])
    .filter((one) => one.getBoundingClientRect().right > innerWidth)
    .map((one) => one.outerHTML.slice(0, 200))"""


def unnamed(page: Browser) -> list[dict[str, Any]]:
    """What people act on in the page and a screen reader has no name for."""
    found = page("Accessibility.getFullAXTree")["nodes"]
    return [
        node
        for node in found
        if not node["ignored"]
        and node["role"]["value"] in ACTED_ON
        and not str(node.get("name", {}).get("value", "")).strip()
    ]


def test_every_view_fits_three_widths_and_names_what_it_offers(
    make_pool: Callable[[str], Pool], tmp_path: Path
) -> None:
    pool = make_pool(f"{DAEMONS}GROUP_NAMES = physics, physics.cms\nGROUP_QUOTA_physics = 2\n")
    pool.up()
    anybody = Caller(pool)
    with Schedd(env=pool.env) as schedd:
        common = {"executable": "/bin/sh", "transfer_executable": False, "batch_name": "a sweep of many parameters"}
        long = f"\"-c 'echo {'long_' * 60}; echo; sleep 1000'\""
        schedd.submit({**common, "arguments": long, "output": "out"}, count=2)
        schedd.submit({**common, "arguments": "\"-c 'exit 3'\""})
        schedd.submit({**common, "requirements": 'Memory > 10000000 && OpSys == "LINUX"'}, count=30)
        schedd.submit({**common, "hold": True})
    pool.until("the end of one", lambda: anybody("GET", "/api/v1/history").json)
    pool.until("the demand", lambda: anybody("GET", "/api/v1/demand").json["jobs"])
    machine = anybody("GET", "/api/v1/slots?projection=Machine").json[0]["Machine"]
    views = [
        "pool",
        "jobs",
        "job/1.0",
        "job/3.0",
        "users",
        "cycle",
        "events",
        "history",
        "submit",
        "dags",
        f"machine/{machine}",
    ]
    token = pool.run("token", "fetch").stdout.strip()
    with Browser() as page:
        page("Accessibility.enable")
        page.open(f"{anybody.base}/#/pool")
        page.until("!!document.querySelector('main h1')")
        page.click("#sign")
        page.run(f"document.getElementById('token').value = '{token}'")
        assert unnamed(page) == [], "the dialog"
        page.click("#signing button.primary")
        page.until("document.getElementById('who').textContent !== ''")
        for view in views:
            # Of the view before nothing is left when this one is there.
            page.run(f"document.querySelector('main h1').id = 'former'; location.hash = '#/{view}'")
            page.until("!!document.querySelector('main h1') && !document.getElementById('former')")
            for width, height in WIDTHS.items():
                for dark in (False, True):
                    name = f"{view.partition('/')[0]}-{view[-3:]}-{width}{'-dark' if dark else ''}.png"
                    page.picture(str(tmp_path / name.replace("/", "-")), width, height, dark=dark)
                assert page.run(BEYOND) == [], (view, width)
                assert page.run("document.documentElement.scrollWidth <= innerWidth"), (view, width)
                assert page.run(OUT_OF_SIGHT) == [], (view, width)
            assert unnamed(page) == [], view
            assert page.run("document.querySelectorAll('main h1').length") == 1, view


def test_a_keyboard_is_enough(make_pool: Callable[[str], Pool]) -> None:
    pool = make_pool(DAEMONS)
    pool.up()
    anybody = Caller(pool)
    with Schedd(env=pool.env) as schedd:
        schedd.submit({"executable": "/bin/true", "transfer_executable": False, "requirements": "false"})
    pool.until("the job", lambda: anybody("GET", "/api/v1/jobs").json)
    focused = "(document.activeElement.textContent + document.activeElement.id).trim()"
    with Browser() as page:
        page.open(f"{anybody.base}/#/pool")
        page.until("!!document.querySelector('main h1')")

        def tab_to(holds: str) -> None:
            seen = []
            for _ in range(200):
                page.press("Tab", 9)
                seen.append(page.run(focused))
                if page.run(holds):
                    # What has the focus shows it.
                    assert page.run(
                        "((style) => style.outlineStyle !== 'none' || style.boxShadow !== 'none')"
                        "(getComputedStyle(document.activeElement))"
                    ), seen[-1]
                    return
            raise AssertionError((holds, seen))

        tab_to("document.activeElement.getAttribute('href') === '#/jobs'")
        page.press("Enter", 13)
        page.until("document.querySelector('main h1')?.innerText.includes('obs') && location.hash === '#/jobs'")
        page.until("!!document.querySelector('a[href=\"#/job/1.0\"]')")
        tab_to("document.activeElement.getAttribute('href') === '#/job/1.0'")
        page.press("Enter", 13)
        page.until("location.hash === '#/job/1.0' && document.body.innerText.includes('Why it does not run')")
        tab_to("document.activeElement.id === 'sign'")
        page.press("Enter", 13)
        page.until("document.getElementById('signing').open")
        page.until("document.getElementById('signing').contains(document.activeElement)")
        page.press("Escape", 27)
        page.until("!document.getElementById('signing').open && document.activeElement.id === 'sign'")
