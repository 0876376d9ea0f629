"""Configurations through HTCondor (the wheel's ``htcondor2.param``) and through Slotwise, for comparison.

Results: ``{"error": reason}`` or ``{"values": {knob: text or None}}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from slotwise.config import load
from slotwise.errors import ConfigError

Case = dict[str, Any]
Result = dict[str, Any]


def as_text(value: str | int | bool | float | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _write(case: Case, directory: str) -> None:
    for name, text in case["files"].items():
        path = Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@DIR@", directory), encoding="utf-8")
        path.chmod(0o755)


@lru_cache(maxsize=1)
def _oracle() -> subprocess.Popen[str]:
    program = str(Path(__file__).with_name("config_oracle.py"))
    return subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def stop_oracle() -> None:
    """End the helper process; a later question starts another."""
    if _oracle.cache_info().currsize:
        helper = _oracle()
        helper.communicate()
        _oracle.cache_clear()


def reference(case: Case) -> Result:
    """What HTCondor says."""
    with tempfile.TemporaryDirectory(prefix="slotwise-ref") as directory:
        _write(case, directory)
        helper = _oracle()
        assert helper.stdin is not None and helper.stdout is not None
        helper.stdin.write(json.dumps(case | {"directory": directory}) + "\n")
        helper.stdin.flush()
        result: Result = json.loads(helper.stdout.readline())
        return result


def slotwise(case: Case) -> Result:
    """What Slotwise says."""
    with tempfile.TemporaryDirectory(prefix="slotwise-own") as directory:
        _write(case, directory)
        env = {name: value for name, value in os.environ.items() if not name.lower().startswith("_condor_")}
        env |= {name: value.replace("@DIR@", directory) for name, value in case.get("env", {}).items()}
        env["CONDOR_CONFIG"] = f"{directory}/main"
        try:
            config = load(subsystem=case.get("subsystem"), env=env, seed=7)
            values = {name: as_text(config.typed(name)) for name in case["queries"]}
        except ConfigError as error:
            return {"error": str(error).replace(directory, "@DIR@"), "code": error.code}
        return {"values": {name: text and text.replace(directory, "@DIR@") for name, text in values.items()}}
