"""Whether the Rust toolchain builds this tree: ``make build`` asks before pip does, whose own message is long."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def wanted(manifest: str) -> tuple[int, ...]:
    """The oldest version that the workspace says it builds with (``rust-version``)."""
    found = re.search(r'^rust-version = "([\d.]+)"', manifest, re.MULTILINE)
    assert found is not None, "Cargo.toml has no rust-version"
    return tuple(int(part) for part in found[1].split("."))


def trouble(said: str, least: tuple[int, ...]) -> str | None:
    """What is wrong with the toolchain that answers ``cargo --version`` like this; None: nothing."""
    found = re.search(r"^cargo (\d+)\.(\d+)", said, re.MULTILINE)
    if found is None:
        return f"cargo --version says {said.strip()!r}, which is no version"
    if (int(found[1]), int(found[2])) >= least[:2]:
        return None
    oldest = ".".join(str(part) for part in least)
    return (
        f"Slotwise needs Rust {oldest} or newer, and cargo here is {found[1]}.{found[2]}: install it from "
        "https://rustup.rs (distributions often have an older one)"
    )


def main() -> None:
    """End with what is wrong, if something is."""
    try:
        said = subprocess.run(["cargo", "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        sys.exit("Slotwise needs a Rust toolchain (cargo): see https://rustup.rs")
    except subprocess.CalledProcessError as error:
        sys.exit(f"cargo --version failed: {error.stderr.strip()}")
    sys.exit(trouble(said, wanted((ROOT / "Cargo.toml").read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
