"""`make build` installs what requirements.lock pins, by version and by hash, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_requirement_has_a_version_and_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=[A-Za-z])", re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)[1:]
    assert len(entries) > 30
    for entry in entries:
        assert re.match(r"[A-Za-z0-9_.\-]+==[^\s\\]+ ", entry), entry
        assert "--hash=sha256:" in entry, entry
    assert "--require-hashes -r requirements.lock" in (ROOT / "Makefile").read_text()
