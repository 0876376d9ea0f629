"""What `make test` makes of failures: another try alone, tests that end a process, files that cannot be collected."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

_RUNNER = Path(__file__).resolve().parents[2] / "build_support" / "testing.py"


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not _RUNNER.exists():
        pytest.skip("needs a checkout: build_support is not there")
    spec = importlib.util.spec_from_file_location("testing", _RUNNER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "testing", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUT", tmp_path)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(_RUNNER.parents[1]))
    # Each of its dozen starts of pytest would import all plugins.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin")
    return module


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_it.py").write_text(f"import os, pathlib, pytest\n{text}")


def test_what_passes_alone_is_flaky_and_what_fails_again_fails(
    runner: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(
        tmp_path,
        "def test_good(): pass\n"
        "@pytest.mark.xdist_group('a')\n"
        "@pytest.mark.parametrize('word', ['x@y'])\n"
        "def test_once(word):\n"
        "    mark = pathlib.Path(__file__).with_name('seen')\n"
        "    if not mark.exists():\n"
        "        mark.touch()\n"
        "        assert word == 'not at first'\n"
        "def test_bad(): assert 1 == 2\n"
        "def test_absent(): pytest.skip('needs a moon')\n",
    )
    stage = runner.pytest("quick", ["test_it.py"], 2)
    assert len(stage.with_outcome("failed")) == 2 and not stage.broken
    flaky = runner.again([stage])
    assert [name for name in flaky if "test_once[x@y]" in name] and len(flaky) == 1
    assert runner.tell([stage], flaky) == 1
    said = capfd.readouterr().out
    assert said.endswith("2 passed, 1 failed, 1 skipped, 1 flaky\n")
    assert "needs a moon" in said and "FAILED test_it.py::test_bad: assert 1 == 2" in said
    assert "not at first" in (tmp_path / "flaky.txt").read_text()


def test_many_failures_are_not_tried_again(runner: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "@pytest.mark.parametrize('n', range(11))\ndef test_bad(n): assert n < 0\n")
    stage = runner.pytest("quick", ["test_it.py"], 0)
    assert runner.again([stage]) == {}
    assert not list(tmp_path.glob("again-*"))


def test_a_process_that_dies_and_a_file_that_cannot_be_read_fail_the_run(runner: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "def test_death(): os._exit(3)\ndef test_good(): pass\n")
    stage = runner.pytest("quick", ["test_it.py"], 2)
    assert [name.rpartition("::")[2] for name in stage.with_outcome("failed")] == ["test_death"]
    alone = runner.pytest("quick", ["test_it.py"], 0)
    assert alone.broken == ["pytest ended with 3", "began and did not end: test_it.py::test_death"]
    write(tmp_path, "raise RuntimeError('no such thing')\n")
    unread = runner.pytest("quick", ["test_it.py"], 0)
    assert "RuntimeError: no such thing" in unread.broken[0]
    assert runner.tell([unread], {}) == 1


_SHARED = """
def noted(word):
    with (pathlib.Path(__file__).parent / "order").open("a") as order:
        order.write(f"{word} {os.environ['PYTEST_XDIST_WORKER']}\\n")

@pytest.fixture(scope="module")
def place():
    noted("place-begins")
    yield
    noted("place-ends")

@pytest.mark.parametrize("n", range(6))
def test_there(place, n): noted("there")
"""


def test_tests_of_a_file_that_share_something_run_in_one_worker_and_what_takes_longest_begins_first(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import scheduling\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return scheduling.Scheduling(config, log, {'test_lone.py::test_lone[7]': 90})\n"
    )
    noted = _SHARED.partition("@")[0]
    write(tmp_path, _SHARED)
    (tmp_path / "test_lone.py").write_text(
        f"import os, pathlib, pytest\n{noted}\n"
        "@pytest.mark.parametrize('n', range(8))\n"
        "def test_lone(n): noted(f'lone{n}')\n"
    )
    for name in "ab":
        (tmp_path / f"test_{name}.py").write_text(
            f"import os, pathlib, pytest\n{noted}\npytestmark = pytest.mark.xdist_group('both')\n"
            "@pytest.mark.parametrize('n', range(2))\n"
            "def test_in_group(n): noted('group')\n"
        )
    stage = runner.pytest("real", ["."], 3)
    assert len(stage.with_outcome("passed")) == 18 and not stage.broken
    assert not [name for name in stage.tests if "@" in name]
    rows = [line.split() for line in (tmp_path / "order").read_text().splitlines()]
    words = [word for word, _ in rows]
    assert words.count("place-begins") == words.count("place-ends") == 1
    assert len({worker for word, worker in rows if word in ("there", "place-begins")}) == 1
    assert len({worker for word, worker in rows if word == "group"}) == 1
    # The units that go out first: the long test, the file of six, the group of four.
    firsts = {worker: word for word, worker in reversed(rows)}
    assert sorted(firsts.values()) == ["group", "lone7", "place-begins"]


def test_what_a_worker_that_dies_had_to_do_others_do(runner: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import scheduling\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return scheduling.Scheduling(config, log, {})\n"
    )
    write(
        tmp_path,
        "pytestmark = pytest.mark.xdist_group('one')\n"
        "@pytest.mark.parametrize('n', range(5))\n"
        "def test_it(n):\n"
        "    with pathlib.Path(__file__).with_name('tries').open('a') as tries: tries.write(f'{n}\\n')\n"
        "    if n == 2: os._exit(3)\n",
    )
    stage = runner.pytest("real", ["test_it.py"], 2)
    assert stage.with_outcome("failed") == ["test_it.py::test_it[2]"]
    assert len(stage.with_outcome("passed")) == 4
    assert sorted((tmp_path / "tries").read_text().split()) == ["0", "1", "2", "3", "4"]
