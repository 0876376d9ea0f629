"""Records the schedd's ad at intervals: SCHEDD_DAEMON_HISTORY, which `slotwise history -daemon` reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.classad.long_form import long_form
from slotwise.clock import Clock
from slotwise.config import Config
from slotwise.daemon import history_file
from slotwise.daemon.history_file import Record, Rotation

_log = logging.getLogger(__name__)


class DaemonHistorySettings(Struct, frozen=True):
    """The file ("" for none), its rotation, and the interval between records (seconds)."""

    path: str = ""
    rotation: Rotation = field(default_factory=lambda: Rotation(rotations=1))
    interval_s: float = 900.0

    @classmethod
    def of(cls, config: Config) -> DaemonHistorySettings:
        """The settings that a configuration gives. By default, the interval is that of advertising to the collector."""
        return cls(
            config.get_str("SCHEDD_DAEMON_HISTORY").strip(),
            Rotation(config.get_int("MAX_DAEMON_HISTORY_LOG"), max(1, config.get_int("MAX_DAEMON_HISTORY_ROTATIONS"))),
            config.get_float("SCHEDD_HISTORY_RECORD_INTERVAL") or config.get_float("SCHEDD_INTERVAL"),
        )


class DaemonHistory:
    """Writes the ad that ``own_ad`` returns."""

    def __init__(self, own_ad: Callable[[], ClassAd], clock: Clock, threads: Executor) -> None:
        self._own_ad = own_ad
        self._clock = clock
        self._threads = threads
        self._settings = DaemonHistorySettings()
        self._changed = asyncio.Event()

    def follow(self, settings: DaemonHistorySettings) -> None:
        """Apply new settings; when they differ, the next record is written at once."""
        if settings != self._settings:
            self._settings = settings
            self._changed.set()

    async def run(self) -> None:
        """Write until cancelled; on a full disk, records are lost."""
        while True:
            self._changed.clear()
            settings = self._settings
            if settings.path:
                record, now = self._record(), self._clock.now()
                try:
                    await asyncio.get_running_loop().run_in_executor(
                        self._threads, history_file.append, settings.path, [record], settings.rotation, now
                    )
                except OSError as error:
                    _log.warning("could not write SCHEDD_DAEMON_HISTORY: %s", error)
            try:
                async with asyncio.timeout(settings.interval_s if settings.path else None):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _record(self) -> Record:
        now = int(self._clock.now())
        return Record(f"{long_form(self._own_ad())}RecordWriteDate = {now}\n", f"SCHEDD CurrentTime={now}")
