"""The drivers that this host has, by its settings."""

from __future__ import annotations

import os
from pathlib import Path

from slotwise.starter.runtimes.apptainer import Apptainer
from slotwise.starter.runtimes.docker.driver import Docker
from slotwise.starter.runtimes.images import ImageCache, PullRecord
from slotwise.starter.runtimes.runtime import Runtime
from slotwise.starter.runtimes.settings import RuntimeSettings
from slotwise.starter.runtimes.vm.driver import VirtualMachines


def drivers(settings: RuntimeSettings, execute: Path, control: Path) -> tuple[Runtime, ...]:
    """One driver a runtime.

    :param execute: the EXECUTE whose leftovers they remove.
    :param control: the starter's control directory, by which programs that they run are found.
    """
    images = ImageCache(settings.cache, execute / ".images")
    return (
        Docker(settings.docker, execute, control, PullRecord(settings.cache)),
        Apptainer(settings.apptainer, images, execute / ".apptainer", control),
        VirtualMachines(settings.vm, execute, root=os.geteuid() == 0),
    )
