"""Settings for all tests: properties run on the same examples every time, unless a search is asked for."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from tests.support import host
from tests.support.scheduling import Scheduling, longest
from tests.support.waiting import PATIENCE

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The limit of a test as a whole, too, is longer where tests are to be patient.

    Files that tests make can be read by other accounts whatever the umask of who runs them, unless a test sets another.
    """
    os.umask(0o022)
    if config.getoption("timeout") is None:
        config.option.timeout = float(config.getini("timeout")) * PATIENCE


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Several workers (``-n``) are handed tests by our rules, unless ``--dist`` names others."""
    if config.getoption("dist") != "load":
        return None
    return Scheduling(config, log, longest())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need what this host lacks."""
    for mark in item.iter_markers("needs"):
        host.need(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the skipped test and not the line that has skipped it, which is that of a fixture for many."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, _ = item.reportinfo()
        report.longrepr = (str(path), (line or 0) + 1, report.longrepr[2])
    return report


@pytest.fixture(scope="session", autouse=True)
def no_execute_directories_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Pools of root in closed directories (pytest's are) keep their jobs elsewhere, see `PoolHome.execute`:
    those of this session's pools are removed with it."""
    yield
    if os.geteuid() != 0:
        return
    for directory, _below, _files in os.walk(tmp_path_factory.getbasetemp()):
        mark = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
        shutil.rmtree(Path("/var/lib/slotwise") / mark, ignore_errors=True)
