"""What discovery asks the drivers' libraries, real or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from slotwise.gpus.device import Device


class NvmlDevices(Struct, frozen=True):
    """NVML's answer: MIG instances in the order of their UUIDs, then GPUs that are not divided.

    ``children``: the MIG instances of each divided GPU, by UUID (with ``GPU-`` and ``MIG-``).
    """

    devices: Sequence[Device]
    children: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Libraries(Protocol):
    """The libraries of a host. None: there is no such library, or it does not start."""

    def cuda(self) -> list[Device] | None:
        """NVIDIA's devices as CUDA numbers them."""
        ...

    def nvml(self) -> NvmlDevices | None:
        """NVIDIA's devices as NVML knows them, MIG instances among them."""
        ...

    def hip(self) -> list[Device] | None:
        """AMD's devices as HIP numbers them."""
        ...

    def opencl(self) -> list[Device] | None:
        """GPUs of any maker as OpenCL numbers them."""
        ...

    def measured(self, uuid: str) -> dict[str, str] | None:
        """The changing properties (temperature, power, errors) as attributes. None: the device cannot be found."""
        ...

    def is_lost(self, uuid: str) -> bool:
        """Whether the driver reports that it has lost the device."""
        ...
