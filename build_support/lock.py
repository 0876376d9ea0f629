"""Writes requirements.lock and the locks of tests/clients anew: exact versions, each with the hashes of all its files.

    python build_support/lock.py            # the same versions; the newest of requirements that are new
    python build_support/lock.py --upgrade  # the newest versions of what is asked for

Files of all platforms and Python versions are in them, sdists too, so one lock serves every host: pip takes the file
that fits and refuses one whose hash is not there. Needs `uv` (pip install uv), which asks the index that pip is set to.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "tests" / "clients"
#: Each lock, what names its requirements as words of `uv pip compile`, and what installs it. Clients of HTCondor ask
#: for its wheel, for which compat/ stands in.
LOCKS = (
    (ROOT / "requirements.lock", ("--all-extras", "pyproject.toml", "requirements-dev.txt"), "make build"),
    (
        CLIENTS / "requirements.lock",
        ("--no-emit-package", "htcondor", "tests/clients/requirements.txt"),
        "make clients",
    ),
    (
        CLIENTS / "requirements-large.lock",
        ("--no-emit-package", "htcondor", "tests/clients/requirements.txt", "tests/clients/requirements-large.txt"),
        "make test-clients",
    ),
)
#: The oldest Python that is supported; `--universal` covers all platforms.
OLDEST = "3.11"
HEADER = "# Made by build_support/lock.py; `{}` installs these files and no others.\n"


def resolved(*sources: str) -> str:
    """The exact versions with hashes that `uv` resolves requirement files to."""
    words = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    words += ["--generate-hashes", "--universal", "--python-version", OLDEST]
    done = subprocess.run([*words, *sources], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"uv could not resolve {' '.join(sources)} (pip install uv):\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="Write requirements.lock anew.")
    parser.add_argument("--upgrade", action="store_true", help="newest versions instead of those locked")
    options = parser.parse_args()
    for lock, asked_for, installer in LOCKS:
        text = resolved(*asked_for) if options.upgrade else _as_before(lock, asked_for)
        bare = [line for line in text.splitlines() if "==" in line and not line.rstrip().endswith("\\")]
        if bare:
            sys.exit(f"the index has no hashes of {bare[0]}")
        lock.write_text(HEADER.format(installer) + text)


def _as_before(lock: Path, asked_for: tuple[str, ...]) -> str:
    pins = re.findall(r"^[A-Za-z0-9_.\-]+==[^\\\n]+", lock.read_text(), re.MULTILINE)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins) + "\n")
        file.flush()
        return resolved(*asked_for, "--constraint", file.name)


if __name__ == "__main__":
    main()
