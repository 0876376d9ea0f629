"""`htcondor_cli` of compat/, in a process of its own, as programs import from it; and that it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.waiting import LIMIT_S

_COMPAT = Path(__file__).resolve().parents[2] / "compat"

pytestmark = pytest.mark.skipif(not _COMPAT.exists(), reason="needs the sources of compat")

_PROGRAM = r"""
import shutil, sys
from pathlib import Path
from unittest.mock import MagicMock, patch

import htcondor_cli
from htcondor_cli import snake
from htcondor_cli.cli import main
from htcondor_cli.convert_ad import _ad_to_daemon_status, ads_to_daemon_status
from htcondor_cli.snake import Snake, Submit
from htcondor_cli.utils import readable_size, readable_time, s

assert "compat" in htcondor_cli.__file__
ad = {"MyType": "Scheduler", "MyAddress": "a", "Machine": "m", "RecentDaemonCoreDutyCycle": 1}
name, status = _ad_to_daemon_status(ad)
assert (name, int(status["HealthPoints"]), status["Machine"]) == ("SCHEDD", 28, "m"), status
assert _ad_to_daemon_status({"a": 1}) is None and _ad_to_daemon_status({"MyType": "Shadow"}) is None
assert [name for name, _ in ads_to_daemon_status([ad, {}])] == ["SCHEDD"]
assert (readable_time(3600), readable_size(1536), s(1), s(2)) == ("1 hour", "1.500 KB", "", "s")
assert Snake.verbs() == [Snake.submit] and issubclass(Snake.submit, Submit)
try:
    Submit(None)
    raise SystemExit("no plugin was needed")
except RuntimeError as error:
    assert "pip install snakemake-executor-plugin-htcondor" in str(error)
with patch("importlib.util.find_spec", return_value=True), patch("shutil.which", return_value="/bin/true"):
    try:
        Submit(None, snakefile="none")
        raise SystemExit("no workflow was needed")
    except FileNotFoundError:
        pass
    Path("Snakefile").touch()
    with patch("htcondor2.Schedd") as schedd:
        schedd.return_value.submit.return_value.cluster.return_value = 12
        Submit(None, snakemake_args=["--jobdir", "d", "--", "--jobs", "6"])
        asked = schedd.return_value.submit.call_args[0][0]
        words = asked["arguments"]
        assert words == '"-s Snakefile --executor htcondor --htcondor-jobdir d --jobs 6"', words
        schedd.return_value.submit.side_effect = RuntimeError("no schedd")
        try:
            Submit(None, snakemake_args=[])
            raise SystemExit("a failure was passed over")
        except SystemExit as end:
            assert end.code == 1, end.code
sys.argv[1:] = ["--version"]
raise SystemExit(main())
"""


def test_programs_find_what_they_import(tmp_path: Path) -> None:
    path = os.pathsep.join([str(_COMPAT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": path, "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=2 * LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "Snakemake management job submitted with JobID 12.0" and said[-1].startswith("$CondorVersion:")
    assert (tmp_path / "d").is_dir()


def test_the_wheel_has_all_modules(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", reason="builds a wheel")
    source = tmp_path / "compat"  # building leaves files in the tree
    shutil.copytree(_COMPAT, source)
    words = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=4 * LIMIT_S)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if name.endswith(".py")}
    assert packed == {str(path.relative_to(_COMPAT / "src")) for path in (_COMPAT / "src").rglob("*.py")}
