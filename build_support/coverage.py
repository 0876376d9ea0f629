"""How much of the Python package and of the crates the tests run, package by package and crate by crate.

    python build_support/coverage.py [TESTS...]   # default: all Python tests that need no pool, and those of the crates

Figures go to standard output, and to `coverage/`: `python.json`, `rust.json`, and pages that show the lines
(`python/index.html`). Rust needs cargo-llvm-cov and the toolchain's llvm-tools; without them it is named as not
measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "coverage"
#: Tests of pools and hosts run the same code in processes that are killed, and take three times as long.
DEFAULT = ("tests/unit", "tests/conformance", "tests/service", "tests/property")
WORKERS = os.environ.get("WORKERS", "2")


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def table(title: str, lines: Counter[str], covered: Counter[str]) -> None:
    """One row a package, the total last."""
    say(f"\n{title:30} {'lines':>8} {'run':>7}")
    for name in sorted(lines):
        say(f"{name:30} {lines[name]:8,} {covered[name] / max(lines[name], 1):7.1%}")
    say(f"{'total':30} {lines.total():8,} {covered.total() / max(lines.total(), 1):7.1%}")


def python(tests: list[str]) -> int:
    """Run the Python tests under coverage; returns their status."""
    coverage = [sys.executable, "-m", "coverage"]
    words = ["-m", "pytest", *tests, "-q", "-n", WORKERS, "--dist", "loadgroup", "-p", "no:cacheprovider"]
    # Every process takes longer when each of its lines is noted.
    status = subprocess.run([*coverage, "run", *words, "--timeout", "600"], cwd=ROOT, check=False).returncode
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    subprocess.run([*coverage, "json", "--quiet", "-o", str(OUT / "python.json")], cwd=ROOT, check=True)
    subprocess.run([*coverage, "html", "--quiet", "-d", str(OUT / "python")], cwd=ROOT, check=True)
    report: dict[str, Any] = json.loads((OUT / "python.json").read_text())
    lines: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, file in report["files"].items():
        inside = Path(name.partition("slotwise/")[2]) if "/slotwise/" in name else Path(name)
        package = inside.parts[0] if len(inside.parts) > 1 else "(top)"
        lines[f"slotwise.{package}"] += file["summary"]["num_statements"]
        covered[f"slotwise.{package}"] += file["summary"]["covered_lines"]
    table("Python package", lines, covered)
    return status


def rust() -> int:
    """Run the crates' tests under cargo-llvm-cov, where it is."""
    if shutil.which("cargo-llvm-cov") is None:
        say("\nNOT MEASURED: the crates (rustup component add llvm-tools; cargo install cargo-llvm-cov)")
        return 0
    words = ["cargo", "llvm-cov", "--workspace", "--quiet"]
    done = subprocess.run(
        [*words, "--json", "--summary-only", "--output-path", str(OUT / "rust.json")], cwd=ROOT, check=False
    )
    if done.returncode:
        say("\nNOT MEASURED: the crates (cargo-llvm-cov says why, above)")
        return done.returncode
    report: dict[str, Any] = json.loads((OUT / "rust.json").read_text())
    lines: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for file in report["data"][0]["files"]:
        crate = Path(file["filename"]).relative_to(ROOT / "rust").parts[0]
        lines[crate] += file["summary"]["lines"]["count"]
        covered[crate] += file["summary"]["lines"]["covered"]
    table("Crate", lines, covered)
    return 0


def main(tests: list[str]) -> int:
    """Measure both; the status is that of the tests."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    return python(tests or list(DEFAULT)) or rust()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
