"""Known vulnerabilities in the locked dependencies, and crates against `deny.toml`, as far as the tools are at hand.

Status 1 when something is wrong, else 2 when something could not be checked, which is named: nobody takes that for a
sound result. ``AUDIT_RUSTSEC_DB`` names a copy of the RustSec database for hosts that cannot get it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 300


def say(line: str) -> None:
    """Tell of a finding."""
    sys.stdout.write(f"{line}\n")


def tool(name: str) -> str | None:
    """A program on PATH, or in the environment of this Python."""
    return shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))


def run(words: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a tool to its end; None when it takes too long (it waits for the network)."""
    try:
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None


def python() -> bool | None:
    """Whether requirements.lock is free of known vulnerabilities; None: not known."""
    program = tool("pip-audit")
    if program is None:
        return unchecked("requirements.lock", "pip install pip-audit")
    words = ["--requirement", "requirements.lock", "--no-deps", "--disable-pip", "--format", "json"]
    done = run([program, *words, "--progress-spinner", "off"])
    try:
        found = json.loads(done.stdout)["dependencies"] if done is not None else []
    except (ValueError, KeyError):
        found = []
    looked_at = [each for each in found if "vulns" in each]
    for each in looked_at:
        for fault in each["vulns"]:
            package = f"{each['name']} {each['version']}"
            say(f"requirements.lock: {package}: {fault['id']}, fixed in {fault['fix_versions']}")
    if any(each["vulns"] for each in looked_at):
        return False
    if len(looked_at) < len(found) or not found:
        return unchecked(
            "requirements.lock", f"the index tells of the vulnerabilities of {len(looked_at)} of {len(found)} packages"
        )
    say(f"requirements.lock: no known vulnerability in {len(found)} packages")
    return True


def rust() -> bool | None:
    """Whether Cargo.lock is free of known vulnerabilities; None: not known."""
    if tool("cargo-audit"):
        copy = os.environ.get("AUDIT_RUSTSEC_DB")
        done = run(["cargo", "audit", "--json", *(["--db", copy, "--no-fetch"] if copy else [])])
        try:
            found = json.loads(done.stdout)["vulnerabilities"]["list"] if done is not None else None
        except (ValueError, KeyError):
            found = None
        if found is None:
            return unchecked("Cargo.lock", "cargo-audit has no advisory database; AUDIT_RUSTSEC_DB may name a copy")
        for each in found:
            say(f"Cargo.lock: {each['package']['name']} {each['package']['version']}: {each['advisory']['id']}")
        if not found:
            say("Cargo.lock: no known vulnerability")
        return not found
    return unchecked("Cargo.lock", "cargo install cargo-audit")


def policy() -> bool | None:
    """Whether the crates' licences, sources and kinds are those that deny.toml allows; None: not known."""
    if tool("cargo-deny") is None:
        return unchecked("deny.toml", "cargo install cargo-deny")
    # Vulnerabilities are those of `rust`; nothing here needs the network once the crates are there.
    done = run(["cargo", "deny", "--offline", "--log-level", "error", "check", "licenses", "bans", "sources"])
    if done is None or "failed to fetch" in done.stderr:
        return unchecked("deny.toml", "the crates are not at hand: cargo fetch")
    if done.returncode:
        say(f"deny.toml: {done.stderr.strip()}")
        return False
    say("deny.toml: licences, sources and crates are as it allows")
    return True


def unchecked(what: str, why: str) -> None:
    """Say that something was not looked at."""
    say(f"NOT CHECKED: {what} ({why})")


def status(sound: list[bool | None]) -> int:
    """The exit status for what was found: a vulnerability counts more than what nobody has looked at."""
    return 1 if False in sound else 2 if None in sound else 0


if __name__ == "__main__":
    sys.exit(status([python(), rust(), policy()]))
