"""Makes the pictures of the README from real runs: ``make pictures`` (the page's needs chromium).

``docs/images/demo.svg`` is the terminal of ``make demo``; ``docs/images/page.png`` the page of a pool with jobs of
several users.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.browser import BROWSER, Browser
from tests.support.pool import Pool

IMAGES = Path(__file__).parents[2] / "docs/images"
_CONFIG = """\
DAEMON_LIST = MASTER, COLLECTOR, NEGOTIATOR, SCHEDD, STARTD, WEB
SLOTWISE_HTTP_PORT = 0
NUM_CPUS = 64
MEMORY = 262144
"""
_JOBS = """\
executable = /bin/sh
arguments = "-c 'echo line of output; sleep 600'"
transfer_executable = false
batch_name = $(batch)
accounting_group = lab
accounting_group_user = $(who)
request_memory = $(memory)
request_disk = 10M
request_cpus = $(cores)
queue $(count)
"""
_SUBMISSIONS = (
    ("scan", "alice", "2G", 1, 24),
    ("fit", "bob", "8G", 4, 4),
    ("train", "carol", "32G", 8, 2),
    ("huge", "bob", "900G", 1, 2),
)
_WIDTH, _HEIGHT = 1200, 760


def demo(path: Path) -> None:
    """The demonstration as a picture of its terminal."""
    subprocess.run([sys.executable, "-m", "slotwise.demo", "--picture", str(path)], check=True)


def page(path: Path) -> None:
    """The page of a pool at work."""
    with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as directory:
        pool = Pool(Path(directory) / "p", _CONFIG)
        try:
            pool.up()
            description = pool.root / "jobs.sub"
            description.write_text(_JOBS)
            for batch, who, memory, cores, count in _SUBMISSIONS:
                given = (f"batch={batch}", f"who={who}", f"memory={memory}", f"cores={cores}", f"count={count}")
                pool.run("submit", *given, str(description))
            pool.until("jobs run", lambda: len(pool.json("q", "-constraint", "JobStatus == 2")) >= 30)
            log = pool.home.log / "WebLog"
            served = pool.until("the page", lambda: re.findall(r"serving (http://[\d.:]+)/", log.read_text()))
            with Browser() as browser:
                browser.open(f"{served[-1]}/#/pool")
                browser.until("document.querySelector('main')?.innerText.includes('running')")
                browser.picture(str(path), _WIDTH, _HEIGHT)
                browser.until("document.querySelector('main')?.innerText.includes('running')")
                browser.picture(str(path), _WIDTH, _HEIGHT)
        finally:
            pool.destroy()


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    demo(IMAGES / "demo.svg")
    if BROWSER is None:
        sys.exit("the picture of the page needs chromium")
    page(IMAGES / "page.png")
