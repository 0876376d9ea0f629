"""The configuration cases with HTCondor's answers (see README of the sample: one case, several queries)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from slotwise.config import load
from slotwise.errors import ConfigError

CASES = json.loads(Path(__file__).with_name("config-sample.json").read_text())


def as_text(value: str | int | bool | float | None) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def fits(got: str | None, expected: Any) -> bool:
    if isinstance(expected, dict):
        return got is not None and re.search(expected["re"], got) is not None
    return bool(got == expected)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    for name, text in case["files"].items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@DIR@", str(tmp_path)))
        path.chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "CONDOR_CONFIG": str(tmp_path / "main")}
    env |= {name: value.replace("@DIR@", str(tmp_path)) for name, value in case["env"].items()}
    if case.get("error"):
        with pytest.raises(ConfigError):
            load(env=env, subsystem=case.get("subsystem"))
        return
    config = load(env=env, subsystem=case.get("subsystem"))
    got = {name: as_text(config.typed(name)) for name in case["queries"]}
    shown = {name: text and text.replace(str(tmp_path), "@DIR@") for name, text in got.items()}
    wrong = {
        name: (text, case["queries"][name]) for name, text in shown.items() if not fits(text, case["queries"][name])
    }
    assert not wrong
