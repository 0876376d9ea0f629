"""A GPU as a library describes it, and the attributes that describe it in ads.

Source: manual page of condor_gpu_discovery; names and forms of values are those of HTCondor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

#: Cores of a compute unit by capability; other capabilities have as many as the newest.
_CORES: Mapping[tuple[int, int], int] = MappingProxyType(
    {
        (1, 0): 8, (1, 1): 8, (1, 2): 8, (1, 3): 8,
        (2, 0): 32, (2, 1): 48,
        (3, 0): 192, (3, 2): 192, (3, 5): 192, (3, 7): 192,
        (6, 0): 64,
        (7, 0): 64, (7, 2): 64, (7, 5): 64,
        (8, 0): 64,
    }
)  # fmt: skip
_CORES_OF_OTHERS = 128

#: The length of a short id: ``GPU-`` and the beginning of a UUID.
_SHORT = 12


class Device(Struct, frozen=True):
    """One GPU, or a MIG instance of one. What a library does not report is None (empty for texts).

    ``uuid`` is as the library has it: bare from CUDA and HIP, with the prefix ``GPU-`` or ``MIG-`` from NVML.
    ``clock_khz`` is the highest clock; ``driver_version`` the number that CUDA (11020: 11.2) or HIP report;
    ``rocm`` the major version of ROCm for AMD's devices.
    """

    uuid: str = ""
    name: str = ""
    pci_bus_id: str = ""
    capability: tuple[int, int] | None = None
    clock_khz: int | None = None
    compute_units: int | None = None
    memory_bytes: int | None = None
    ecc: bool | None = None
    driver: str = ""
    driver_version: int | None = None
    rocm: int | None = None
    xnack: int | None = None
    warp_size: int | None = None

    def properties(self, *, extra: bool) -> dict[str, str]:
        """Attributes and their values as ClassAd text; with ``extra`` also those of clocks and cores."""
        found: dict[str, str] = {}
        if self.uuid:
            found["DeviceUuid"] = _quoted(self.uuid)
        if self.name:
            found["DeviceName"] = _quoted(self.name)
        if self.pci_bus_id:
            found["DevicePciBusId"] = _quoted(self.pci_bus_id)
        if self.capability is not None:
            found["Capability"] = "{}.{}".format(*self.capability)
        if self.ecc is not None:
            found["ECCEnabled"] = "true" if self.ecc else "false"
        if self.memory_bytes is not None:
            found["GlobalMemoryMb"] = f"{self.memory_bytes / 2**20:.0f}"
        if self.xnack is not None:
            found["xNACK"] = str(self.xnack)
        if self.warp_size is not None:
            found["WarpSize"] = str(self.warp_size)
        found |= self._versions()
        if extra:
            found |= self._extra()
        return found

    def _versions(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.driver:
            found["NvidiaDriver"] = _quoted(self.driver)
        version = self.driver_version
        if self.rocm is not None:
            found["Rocm"] = str(self.rocm)
            if version:
                major, rest = divmod(version, 10_000_000)
                found["AmdDriverVersion"] = _quoted("{}.{}.{}".format(major, *divmod(rest, 100_000)))
        elif version is not None:
            found["DriverVersion"] = f"{version // 1000}.{version % 100}"
            found["MaxSupportedVersion"] = str(version)
        return found

    def _extra(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if self.clock_khz is not None:
            found["ClockMhz"] = f"{self.clock_khz / 1000:.2f}"
        if self.compute_units:
            found["ComputeUnits"] = str(self.compute_units)
        if self.capability is not None and self.rocm is None:
            found["CoresPerCU"] = str(_cores(self.capability))
        return found


class OpenClDevice(Device, frozen=True):
    """A GPU that only OpenCL knows: it has no UUID; its clock is in whole MHz."""

    opencl_version: str = ""

    def _versions(self) -> dict[str, str]:
        return {"OpenCLVersion": self.opencl_version} if self.opencl_version else {}

    def _extra(self) -> dict[str, str]:
        found = {} if self.compute_units is None else {"ComputeUnits": str(self.compute_units)}
        if self.clock_khz is not None:
            found["ClockMhz"] = str(self.clock_khz // 1000)
        return found


def gpu_id(uuid: str, *, short: bool) -> str:
    """The id of a device for ``CUDA_VISIBLE_DEVICES`` and slots.

    MIG instances are never shortened: their short forms name nothing.
    """
    if uuid.startswith("MIG-"):
        return uuid
    full = uuid if "GPU-" in uuid else f"GPU-{uuid}"
    return full[:_SHORT] if short else full


def bare_uuid(uuid: str) -> str:
    """A UUID without NVML's prefixes ``MIG-`` and ``GPU-``."""
    return uuid.removeprefix("MIG-").removeprefix("GPU-")


def uuid_of(octets: bytes) -> str:
    """Sixteen bytes as the text of a UUID."""
    digits = octets.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def rocm_uuid(octets: bytes, model: int) -> str:
    """The UUID that HIP's sixteen bytes mean; empty when they mean none.

    ROCm 6 fills them with sixteen hexadecimal digits. amd-smi makes a UUID of these and a number of the model
    (``-fix-hip-guid``); without that number there is none that ``ROCR_VISIBLE_DEVICES`` would take.
    """
    if octets in (b"\0" * 16, b"\xff" * 16):
        return ""
    if any(octet not in b"0123456789abcdef" for octet in octets):
        return uuid_of(octets)
    if not model:
        return ""
    number = bytes.fromhex(octets.decode())
    return uuid_of(number[:1] + b"\xff" + (model & 0xFFFF).to_bytes(2, "big") + b"\0\0\x10\0\x80" + number[1:])


def _cores(capability: tuple[int, int]) -> int:
    return 128 if capability[0] == 5 else _CORES.get(capability, _CORES_OF_OTHERS)


def _quoted(text: str) -> str:
    # The text comes from a driver and becomes a line of the report: no quote or line break in it may end either.
    return '"' + re.sub(r'[\x00-\x1f\x7f"\\]', "_", text) + '"'
