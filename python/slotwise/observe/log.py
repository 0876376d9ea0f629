"""Daemon logs: one file per daemon, with time, level and source, rotated by size.

``<DAEMON>_LOG`` names the file (default ``<Daemon>Log`` in ``LOG``), ``MAX_<DAEMON>_LOG`` its size in bytes,
``<DAEMON>_DEBUG`` containing ``D_FULLDEBUG`` makes it verbose. Secrets never go into messages: claim ids are logged
through :func:`slotwise.ids.public_claim_id`.
"""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from slotwise.config import Config
from slotwise.home import PoolHome

_NAMES = {
    "master": "MasterLog",
    "collector": "CollectorLog",
    "negotiator": "NegotiatorLog",
    "schedd": "SchedLog",
    "startd": "StartLog",
    "starter": "StarterLog",
    "front": "FrontLog",
}
_DEFAULT_SIZE = 10 * 1024 * 1024


def log_file(home: PoolHome, daemon: str) -> Path:
    """The log file of ``daemon`` in a pool without configured log names."""
    return home.log / _NAMES.get(daemon, f"{daemon.capitalize()}Log")


def start_log(home: PoolHome, daemon: str, config: Config) -> None:
    """Send this process's log records to the daemon's log file."""
    path = log_file(home, daemon)
    size = _DEFAULT_SIZE
    text = config.get(f"MAX_{daemon.upper()}_LOG")
    if text and text.isdigit():
        size = int(text)
    handler = RotatingFileHandler(path, maxBytes=size, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    verbose = "D_FULLDEBUG" in (config.get(f"{daemon.upper()}_DEBUG") or "")
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    for library in ("asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.WARNING)
