"""Writes requirements.lock anew: the versions that it names, each with the hashes of all its files.

    python build_support/lock.py            # the same versions; the newest of requirements that are new
    python build_support/lock.py --upgrade  # the newest versions of what is asked for

Files of all platforms and Python versions are in it, sdists too, so one lock serves every host: pip takes the file that
fits and refuses one whose hash is not there. Needs `uv` (pip install uv), which asks the index that pip is set to.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
#: What names the requirements, as words of `uv pip compile`.
ASKED_FOR = ("--all-extras", "pyproject.toml", "requirements-dev.txt")
#: The oldest Python that is supported; `--universal` covers all platforms.
OLDEST = "3.11"
HEADER = "# Made by build_support/lock.py; `make build` installs these files and no others.\n"


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
    if options.upgrade:
        text = resolved(*ASKED_FOR)
    else:
        pins = re.findall(r"^[A-Za-z0-9_.\-]+==[^\\\n]+", LOCK.read_text(), re.MULTILINE)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(pins) + "\n")
            file.flush()
            text = resolved(*ASKED_FOR, "--constraint", file.name)
    bare = [line for line in text.splitlines() if "==" in line and not line.rstrip().endswith("\\")]
    if bare:
        sys.exit(f"the index has no hashes of {bare[0]}")
    LOCK.write_text(HEADER + text)


if __name__ == "__main__":
    main()
