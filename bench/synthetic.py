"""Synthetic pools as ad text, from the crate ``testkit``; made once and kept in ``bench/out``."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"


def _made(*words: object) -> Path:
    path = OUT / ("-".join(str(word).replace("=", "") for word in words) + ".ads")
    if not path.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        command = ["cargo", "run", "--quiet", "--release", "--package", "testkit", "--bin", "synthetic-pool", "--"]
        part = path.with_suffix(".part")
        with part.open("wb") as out:
            subprocess.run([*command, *map(str, words)], cwd=HERE.parent, stdout=out, check=True)
        part.rename(path)
    return path


def slots_file(count: int, **options: int) -> Path:
    """A file of slot ads as ``status -long`` prints them: 160 attributes, 8 machine classes.

    Options: seed, classes, slots_per_machine, partitionable (0 or 1), claimed_every, now.
    """
    return _made("slots", count, *(f"{name}={value}" for name, value in sorted(options.items())))


def jobs_file(submitters: int, autoclusters: int, jobs: int, **options: int) -> Path:
    """A file of job ads as ``q -long`` prints them. Options: seed, now."""
    return _made(
        "jobs", submitters, autoclusters, jobs, *(f"{name}={value}" for name, value in sorted(options.items()))
    )
