"""Secrets that are made at their first use. Free of gRPC and of cryptography."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from slotwise import ids
from slotwise.wire.token import write_secret


def made_once(path: Path, make: Callable[[], str]) -> None:
    """Write what ``make`` gives into ``path``, unless it is there. Of several who make it, all find the same."""
    if path.exists():
        return
    fresh = path.with_name(f".{path.name}.{ids.secret(64)}")
    write_secret(fresh, make())
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()
