"""The drivers' libraries of this host, loaded on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from slotwise.gpus import amd, opencl
from slotwise.gpus.device import Device
from slotwise.gpus.libraries import NvmlDevices
from slotwise.gpus.nvidia import Cuda, Nvml

_Library = TypeVar("_Library")


class HostLibraries:
    """The libraries that are installed here.

    ``hidden``: environment variables that limit what the libraries show, removed before they are loaded.
    ``tell``: gets lines about which libraries there are and what they report.
    """

    def __init__(
        self, *, hidden: Sequence[str] = (), hip_model: int = 0, tell: Callable[[str], None] | None = None
    ) -> None:
        self._tell = tell or (lambda _line: None)
        self._hip_model = hip_model
        for name in hidden:
            if os.environ.pop(name, None) is not None:
                self._tell(f"diag: {name} is ignored")

    def cuda(self) -> list[Device] | None:
        """NVIDIA's devices as CUDA numbers them."""
        driver = self._nvml.driver_version() if self._nvml else ""
        return self._answer("CUDA", Cuda.load(self._tell), lambda cuda: cuda.devices(driver))

    def nvml(self) -> NvmlDevices | None:
        """NVIDIA's devices as NVML knows them."""
        return self._nvml.devices() if self._nvml else None

    def hip(self) -> list[Device] | None:
        """AMD's devices."""
        return self._answer("HIP", amd.load(self._tell), lambda hip: amd.devices(hip, self._hip_model))

    def opencl(self) -> list[Device] | None:
        """GPUs of any maker."""
        return self._answer("OpenCL", opencl.load(self._tell), opencl.devices)

    def measured(self, uuid: str) -> dict[str, str] | None:
        """Temperature, power, errors, from NVML."""
        return self._nvml.measured(uuid) if self._nvml else None

    def is_lost(self, uuid: str) -> bool:
        """Whether NVML reports that it has lost the device; other libraries report nothing."""
        return self._nvml is not None and self._nvml.is_lost(uuid)

    @cached_property
    def _nvml(self) -> Nvml | None:
        return Nvml.load(self._tell)

    def _answer(
        self, name: str, library: _Library | None, ask: Callable[[_Library], list[Device]]
    ) -> list[Device] | None:
        if library is None:
            return None
        devices = ask(library)
        self._tell(f"diag: {name} has {len(devices)} devices")
        return devices
