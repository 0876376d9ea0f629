"""Asks again and again which devices answer: one that an inventory program does not name any more is offline.

A device that is lost while a job has it stays with the job's slot until that is free; then nobody gets it. When it
answers again, it is back. What the configuration calls offline (OFFLINE_MACHINE_RESOURCE_<tag>) is so whatever a
program says.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Iterable

from slotwise.config import Config
from slotwise.daemon import tasks
from slotwise.daemon.pause import pause
from slotwise.errors import ConfigError
from slotwise.startd.dispatcher import Dispatcher
from slotwise.startd.monitor import sampler
from slotwise.startd.slot_types.custom import CustomResource, names_in, parse_inventory

_log = logging.getLogger(__name__)


class DeviceCheck:
    """The devices of a startd that are not to be handed out. All calls come from the event loop's thread.

    :param resources: the machine's custom resources as they were found at the start.
    """

    def __init__(self, dispatcher: Dispatcher, config: Config, resources: Iterable[CustomResource]) -> None:
        self._dispatcher = dispatcher
        self._devices: dict[str, tuple[str, ...]] = {}
        self._lost: dict[str, tuple[str, ...]] = {}
        for resource in resources:
            if resource.devices:
                self._devices[resource.tag] = tuple(dict.fromkeys(resource.devices))
                configured = _configured(config, resource.tag)
                self._lost[resource.tag] = tuple(name for name in resource.offline if name not in configured)
        self._task: asyncio.Task[None] | None = None
        self.follow(config)

    def follow(self, config: Config) -> None:
        """Heed this configuration from now on."""
        self._config = config
        offline = {tag: tuple(dict.fromkeys([*_configured(config, tag), *self._lost[tag]])) for tag in self._devices}
        self._dispatcher.point.offline_devices.follow(offline)
        for tag, names in offline.items():
            self._dispatcher.point.ads.machine[f"Offline{tag}"] = ", ".join(names)

    def start(self) -> None:
        """Begin to ask, every SLOTWISE_DEVICE_CHECK_INTERVAL seconds."""
        self._task = tasks.keep("asking for devices", self._keep)

    async def stop(self) -> None:
        """Ask no more."""
        await tasks.end(self._task)

    async def _keep(self) -> None:
        while True:
            await pause(lambda: self._interval_s() or math.inf)
            await self.look()

    def _interval_s(self) -> float:
        """SLOTWISE_DEVICE_CHECK_INTERVAL; 0: never."""
        return max(0.0, self._config.get_float("SLOTWISE_DEVICE_CHECK_INTERVAL"))

    async def look(self) -> None:
        """Ask once."""
        changed = False
        for tag, devices in self._devices.items():
            command = sampler.inventory_command(self._config, tag)
            if command is None:
                continue
            try:
                printed = await asyncio.to_thread(sampler.run_inventory, tag, command)
            except ConfigError as error:
                _log.warning("could not ask for devices: %s", error)
                continue
            found = parse_inventory(tag, printed)
            lost = tuple(name for name in devices if name not in found.usable)
            former = self._lost[tag]
            for name in lost:
                if name not in former:
                    _log.error("%s: %s does not answer any more; it is offline", tag, name)
            for name in former:
                if name not in lost:
                    _log.info("%s: %s answers again", tag, name)
            changed, self._lost[tag] = changed or lost != former, lost
        if changed:
            self.follow(self._config)
            self._dispatcher.touch_all()
            self._dispatcher.flush()


def _configured(config: Config, tag: str) -> tuple[str, ...]:
    return names_in(config.get_str(f"OFFLINE_MACHINE_RESOURCE_{tag}"))
