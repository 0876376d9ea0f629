"""Daemon logs: one file per daemon, with time, level and source, put aside when it is large or old.

``<SUBSYS>_LOG`` names the file (default ``<Daemon>Log`` in ``LOG``), ``MAX_<SUBSYS>_LOG`` its size or age,
``MAX_NUM_<SUBSYS>_LOG`` how many old ones are kept, ``<SUBSYS>_DEBUG`` and ``ALL_DEBUG`` how much is written. Rules:
manual, "Configuration: Daemon Logging". Secrets never go into messages: claim ids are logged through
:func:`slotwise.ids.public_claim_id`.
"""

from __future__ import annotations

import contextlib
import logging
import re
from logging.handlers import RotatingFileHandler, TimedRotatingFileHandler
from pathlib import Path
from typing import Protocol

from slotwise.home import PoolHome

_NAMES = {
    "master": "MasterLog",
    "collector": "CollectorLog",
    "negotiator": "NegotiatorLog",
    "schedd": "SchedLog",
    "startd": "StartLog",
    "starter": "StarterLog",
    "front": "FrontLog",
    "defrag": "DefragLog",
}
_DEFAULT_BYTES = 10 * 1024 * 1024
_LIMIT = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}


class Knobs(Protocol):
    """What is needed of a configuration."""

    def get(self, name: str, default: str | None = None) -> str | None:
        """The text of a knob, or the default."""
        ...

    def get_int(self, name: str, default: int = 0) -> int:
        """An integer knob."""
        ...

    def get_bool(self, name: str, default: bool = False) -> bool:
        """A truth knob."""
        ...

    def is_set(self, name: str) -> bool:
        """Whether somebody set it."""
        ...


def log_file(home: PoolHome, daemon: str, config: Knobs | None = None) -> Path:
    """The log file of ``daemon``: <SUBSYS>_LOG, else its usual name in LOG (the home's ``log`` when unset)."""
    name = _NAMES.get(daemon, f"{daemon.capitalize()}Log")
    if config is None:
        return home.log / name
    named = f"{daemon.upper()}_LOG"
    if config.is_set(named) and (path := config.get(named)):
        return Path(path)
    return Path(config.get("LOG") or home.log) / name


def limit_of(text: str | None) -> tuple[int, int]:
    """What a MAX_<SUBSYS>_LOG says: (bytes, seconds), one of them 0; (0, 0) is no limit.

    Units as the reference has them, by their first letters: bytes, Kb, Mb, Gb, Tb; seconds, minutes, hours, days,
    weeks. A lone ``m`` is minutes, a lone ``M`` is Mb. What cannot be understood is the usual 10 Mb.
    """
    found = _LIMIT.fullmatch(text or "")
    if found is None:
        return _DEFAULT_BYTES, 0
    number, unit = int(found[1]), found[2]
    word = unit.lower()
    if unit == "m" or word.startswith("mi"):
        return 0, number * _SECONDS["min"]
    if word[:1] in ("s", "h", "d", "w"):
        return 0, number * _SECONDS[word[0]]
    if word[:1] in _BYTES:
        return number * _BYTES[word[:1]], 0
    return _DEFAULT_BYTES, 0


def level_of(*debug: str | None) -> int:
    """The least level that <SUBSYS>_DEBUG and ALL_DEBUG let through.

    Everything with D_FULLDEBUG, D_ALL, D_ANY or a category with ``:2``; only errors with D_ERROR and nothing else that
    is a category; messages of note otherwise. A ``-`` in front takes a category away.
    """
    words = [word.upper() for text in debug for word in re.split(r"[\s,|]+", text or "") if word]
    categories = {word for word in words if not word.startswith("-")} - {word[1:] for word in words if word[0] == "-"}
    categories -= {"D_PID", "D_CAT", "D_CATEGORY", "D_SUB_SECOND", "D_TIMESTAMP", "D_IDENT", "D_BACKTRACE", "D_FDS"}
    if any(word.endswith(":2") or word in ("D_FULLDEBUG", "D_ALL", "D_ANY") for word in categories):
        return logging.DEBUG
    return logging.ERROR if categories and categories <= {"D_ERROR"} else logging.INFO


def start_log(home: PoolHome, daemon: str, config: Knobs, *, again: bool = False) -> None:
    """Send this process's log records to the daemon's log file; ``again``: after a reconfiguration."""
    subsystem = daemon.upper()
    path = log_file(home, daemon, config)
    kept = max(1, config.get_int(f"MAX_NUM_{subsystem}_LOG", 1))
    debug = (config.get(f"{subsystem}_DEBUG"), config.get("ALL_DEBUG"))
    if not again and config.get_bool(f"TRUNC_{subsystem}_LOG_ON_OPEN", False):
        with contextlib.suppress(OSError):
            path.write_bytes(b"")
    most_bytes, most_s = limit_of(config.get(f"MAX_{subsystem}_LOG") or config.get("MAX_DEFAULT_LOG"))
    handler: RotatingFileHandler | TimedRotatingFileHandler
    if most_s:
        handler = TimedRotatingFileHandler(path, when="S", interval=most_s, backupCount=kept)
    else:
        handler = RotatingFileHandler(path, maxBytes=most_bytes, backupCount=kept)
        if kept == 1:
            handler.namer = _old
    who = "(pid:%(process)d) " if "D_PID" in " ".join(text or "" for text in debug).upper() else ""
    handler.setFormatter(logging.Formatter(f"%(asctime)s {who}%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    former, root.handlers[:] = list(root.handlers), [handler]
    if again:
        for each in former:
            each.close()
    root.setLevel(level_of(*debug))
    for library in ("asyncio", "grpc"):
        logging.getLogger(library).setLevel(logging.WARNING)


def _old(name: str) -> str:
    return name.removesuffix(".1") + ".old"
