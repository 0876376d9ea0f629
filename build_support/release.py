"""Whether a tree may be released, and the text of its release.

    python build_support/release.py check v0.1.0   # status 1, with the reasons, when something does not fit
    python build_support/release.py notes          # the changelog's section of the present version

docs/contributing/releasing.md has the steps.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Pages that `[project.urls]` names.
URLS = ("Repository", "Issues", "Documentation", "Changelog")


def version(root: Path = ROOT) -> str:
    """The version that Cargo.toml states."""
    stated: str = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    return stated


def section(changelog: str, number: str) -> tuple[str, str] | None:
    """What stands in brackets behind a version in the changelog, and the text of its section."""
    found = re.search(rf"^## {re.escape(number)} \(([^)]*)\)\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return (found[1], found[2].strip()) if found else None


def faults(tag: str, root: Path = ROOT) -> list[str]:
    """What keeps a tree from being released as ``tag``; each with its remedy."""
    number = version(root)
    found = []
    if tag != f"v{number}":
        found.append(f"the tag is {tag or 'not given (TAG=v' + number + ')'}, but Cargo.toml has version {number}")
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))
    ours = {each["name"]: each["version"] for each in lock["package"] if "source" not in each}
    behind = [f"{name} {stated}" for name, stated in ours.items() if stated != number]
    found += [f"Cargo.lock has {each}: run cargo update --workspace" for each in behind]
    heading = section((root / "CHANGELOG.md").read_text(encoding="utf-8"), number)
    if heading is None:
        found.append(f"CHANGELOG.md has no section of {number}")
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", heading[0]):
        found.append(f"CHANGELOG.md says {number} ({heading[0]}): put the date of the release there")
    if not (root / "tests/conformance/protos" / f"{number}.json").exists():
        found.append(f"the messages of {number} are not recorded: run python -m tests.support.released_protos")
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    if missing := [name for name in URLS if name not in urls]:
        found.append(f"[project.urls] in pyproject.toml lacks {', '.join(missing)}")
    return found


def main(words: list[str]) -> int:
    """Entry point."""
    if words[:1] == ["notes"]:
        found = section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version())
        if found is None:
            sys.exit(f"CHANGELOG.md has no section of {version()}")
        sys.stdout.write(found[1] + "\n")
        return 0
    if words[:1] != ["check"] or len(words) > 2:
        sys.exit("usage: release.py check TAG | notes")
    found_faults = faults("".join(words[1:]))
    for fault in found_faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if found_faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
