"""Seeds for the targets of `rust/fuzz`, one a file below ``rust/fuzz/corpus/TARGET``, from the recorded cases of tests.

python build_support/fuzz_seeds.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotwise.classad import ClassAd
from slotwise.table import pack_ads

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "conformance"
#: Recorded cases by target. Every text in them is a seed: what is none of the language is one, too.
_FILES = {
    "description": ("submit-ads.json", "queue-patterns.jsonl", "projects.jsonl", "starts.json"),
    "configuration": ("config-sample.json", "manual-examples.json"),
    "transform": ("transforms.jsonl",),
    "dag": ("dags/*.jsonl", "dags/*.json"),
}
#: Longer texts find no more, and slow the search down.
_MOST = 4000


def texts(value: Any) -> Iterator[str]:
    """All texts of several lines in a case."""
    if isinstance(value, str):
        if "\n" in value and len(value) <= _MOST:
            yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def cases(pattern: str) -> Iterator[Any]:
    """The cases of files."""
    for path in sorted(CASES.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            yield from map(json.loads, filter(None, text.splitlines()))
        else:
            yield json.loads(text)


def keep(target: str, seed: bytes) -> None:
    """Write a seed under a name of its own."""
    place = ROOT / "rust" / "fuzz" / "corpus" / target
    place.mkdir(parents=True, exist_ok=True)
    (place / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


def main() -> None:
    """Write all seeds."""
    for target, patterns in _FILES.items():
        found = {text for pattern in patterns for case in cases(pattern) for text in texts(case)}
        for text in found:
            keep(target, text.encode())
    ads = [
        ClassAd({"ClusterId": number, "Owner": "ann", "Size": number / 3, "Idle": number % 2 == 0, "List": [number]})
        for number in range(8)
    ]
    for most in (1, 2, 8):
        keep("pack", pack_ads(ads[:most]))


if __name__ == "__main__":
    main()
