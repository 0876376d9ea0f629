"""Makes .clients, the environment with the real clients of HTCondor that tests/clients runs.

    python build_support/clients.py            # those of tests/clients/requirements.lock
    python build_support/clients.py --large    # those of requirements-large.lock, too

Run by the interpreter of .venv, whose packages the environment sees behind its own: Slotwise's dependencies. The
client programs run as jobs, too, and jobs of a pool of root run as nobody; so the host's own Python is preferred, which
every account can start. `--seconds` bounds the installation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / ".clients"
LOCKS = ROOT / "tests" / "clients"
_HOST_PYTHON = "/usr/bin/python3"


def interpreter() -> str:
    """The host's Python if compiled packages of this one's version fit it, else this one's."""
    words = [_HOST_PYTHON, "-c", f"import sys, venv; print(sys.version_info[:2] == {sys.version_info[:2]})"]
    try:
        fits = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == "True"
    except (OSError, subprocess.CalledProcessError):
        return sys.executable
    return _HOST_PYTHON if fits else sys.executable


def main() -> None:
    """Make the environment, or say what could not be installed; status 1 then."""
    parser = argparse.ArgumentParser(description="Make the environment of tests/clients.")
    parser.add_argument("--large", action="store_true", help="the clients with many dependencies, too")
    parser.add_argument("--seconds", type=float, help="give up after so many seconds")
    options = parser.parse_args()
    python = CLIENTS / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter(), "-m", "venv", "--without-pip", str(CLIENTS)], check=True)
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    # The locks leave out HTCondor's wheel, which clients ask for: compat/ stands in for it.
    words += ["--no-deps", "--require-hashes"]
    names = ["requirements.lock", *(["requirements-large.lock"] if options.large else [])]
    for name in names:
        try:
            failed = subprocess.run([*words, "-r", str(LOCKS / name)], timeout=options.seconds).returncode
        except subprocess.TimeoutExpired:
            failed = 1
        if failed:
            sys.exit(f"the clients of tests/clients/{name} could not be installed: their tests are skipped")
    site = Path(sysconfig.get_path("purelib", vars={"base": str(CLIENTS)}))
    (site / "slotwise.pth").write_text(sysconfig.get_path("purelib") + "\n")


if __name__ == "__main__":
    main()
