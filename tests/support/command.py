"""Runs commands as a caller would, with streams of their own, beside a server in the same process."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.main import dispatch


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str


async def command(
    home: Path,
    *words: str,
    cwd: Path | None = None,
    token: Path | None = None,
    more_env: Mapping[str, str] | None = None,
) -> Result:
    """Run ``slotwise WORDS`` in a thread."""
    out, err = io.StringIO(), io.StringIO()
    env = {"SLOTWISE_HOME": str(home), "HOME": str(home), **(more_env or {})}
    if token is not None:
        env["SLOTWISE_TOKEN_FILE"] = str(token)
    inv = Invocation(cwd or home, env, io.StringIO(), out, err, uid=os.geteuid())
    try:
        status = await asyncio.to_thread(dispatch, list(words), inv)
    finally:
        for opened in inv.channels.values():
            opened.close()
    return Result(status, out.getvalue(), err.getvalue())
