"""GPUs that are not configured: STARTD_DETECT_GPUS.

Source: manual, configuration of the startd: discovery runs where neither MACHINE_RESOURCE_GPUs nor
MACHINE_RESOURCE_INVENTORY_GPUs is set; a machine without GPUs says ``GPUs = 0``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotwise.config import Config
from slotwise.errors import ConfigError
from slotwise.startd.slot_types.custom import CustomResource, parse_inventory

_log = logging.getLogger(__name__)

TAG = "GPUs"
_PROGRAM = "condor_gpu_discovery"
_OFF = ("", "0", "false")
_NO_ARGUMENTS = ("1", "true")


def command(config: Config, *, may_have_gpus: bool) -> str | None:
    """The program that detects the machine's GPUs; None when they are not to be looked for.

    ``may_have_gpus``: without it the program runs only where the knob is set, because it takes its time.
    """
    arguments = (config.get("STARTD_DETECT_GPUS") or "").strip()  # empty: none, not the default
    if arguments.lower() in (*_OFF, *_NO_ARGUMENTS) or not (may_have_gpus or config.is_set("STARTD_DETECT_GPUS")):
        return None
    return f"{_PROGRAM} {arguments}"


def detect(
    config: Config, *, may_have_gpus: bool, offline: tuple[str, ...], run_inventory: Callable[[str, str], str]
) -> CustomResource | None:
    """The machine's GPUs; None when they are not to be looked for.

    A program that fails is logged, and the machine has no GPUs.
    """
    arguments = (config.get("STARTD_DETECT_GPUS") or "").strip()
    if arguments.lower() in _OFF:
        return None
    if arguments.lower() in _NO_ARGUMENTS:
        _log.error("STARTD_DETECT_GPUS = %s detects nothing: its value is arguments of gpu-discovery", arguments)
        return None
    program = command(config, may_have_gpus=may_have_gpus)
    if program is None:
        return CustomResource(TAG, 0)
    try:
        printed = run_inventory(TAG, program)
    except ConfigError as error:
        _log.error("could not detect GPUs: %s", error)
        return CustomResource(TAG, 0)
    return parse_inventory(TAG, printed, offline)
