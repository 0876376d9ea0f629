"""Runs all benchmarks, or those named: ``python bench/run.py [--only TEXT] [NAME...]``. Figures go to ``bench/out``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main(args: list[str]) -> int:
    """Run each benchmark in a process of its own; returns 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--only", default="", metavar="TEXT", help="benchmarks whose name contains this")
    asked = parser.parse_args(args)
    names: list[str] = asked.names
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [name for name in names or known if asked.only in name]
    if not chosen:
        print(f"no benchmark has {asked.only!r} in its name; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, str(known[name])], cwd=HERE).returncode != 0:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
