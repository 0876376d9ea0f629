"""NVIDIA's devices: the CUDA driver's library by ctypes, NVML by NVIDIA's own Python module."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, TypeAlias

import pynvml

from slotwise.gpus.device import Device, bare_uuid, uuid_of
from slotwise.gpus.libraries import NvmlDevices
from slotwise.gpus.shared_library import load_library

#: The library that comes with the driver. Only development packages have the name without a number.
_CUDA = ("libcuda.so.1", "libcuda.so")
_NO_DEVICE = 100
_CLOCK_RATE, _MULTIPROCESSORS, _ECC = 13, 16, 32  # CU_DEVICE_ATTRIBUTE_*


class Cuda:
    """The CUDA driver, initialized."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    @classmethod
    def load(cls, tell: Callable[[str], None]) -> Cuda | None:
        """The library; None if it is missing, or serves no device."""
        library = load_library(_CUDA, tell)
        if library is None:
            return None
        status = library.cuInit(0)
        if status != 0:
            tell(f"diag: cuInit returned {status}" + (" (no device)" if status == _NO_DEVICE else ""))
            return None
        return cls(library)

    def devices(self, driver: str) -> list[Device]:
        """All devices, in the order of CUDA's indexes; ``driver`` is the version that NVML reports."""
        count = ctypes.c_int()
        if self._library.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return []
        version = self._number(lambda number: self._library.cuDriverGetVersion(number))
        found = []
        for index in range(count.value):
            handle = ctypes.c_int()
            if self._library.cuDeviceGet(ctypes.byref(handle), index) == 0:
                found.append(self._device(handle, driver, version))
        return found

    def _device(self, handle: ctypes.c_int, driver: str, version: int | None) -> Device:
        library = self._library
        name = ctypes.create_string_buffer(1024)
        library.cuDeviceGetName(name, len(name) - 1, handle)
        bus = ctypes.create_string_buffer(32)
        library.cuDeviceGetPCIBusId(bus, len(bus) - 1, handle)
        octets = (ctypes.c_ubyte * 16)()
        has_uuid = hasattr(library, "cuDeviceGetUuid") and library.cuDeviceGetUuid(octets, handle) == 0
        memory = ctypes.c_size_t()
        has_memory = library.cuDeviceTotalMem_v2(ctypes.byref(memory), handle) == 0
        ecc = self._attribute(_ECC, handle)
        return Device(
            uuid=uuid_of(bytes(octets)) if has_uuid else "",
            name=name.value.decode(errors="replace"),
            pci_bus_id=bus.value.decode(errors="replace"),
            capability=self._capability(handle),
            clock_khz=self._attribute(_CLOCK_RATE, handle),
            compute_units=self._attribute(_MULTIPROCESSORS, handle),
            memory_bytes=memory.value if has_memory else None,
            ecc=None if ecc is None else bool(ecc),
            driver=driver,
            driver_version=version,
        )

    def _capability(self, handle: ctypes.c_int) -> tuple[int, int] | None:
        major, minor = ctypes.c_int(), ctypes.c_int()
        if self._library.cuDeviceComputeCapability(ctypes.byref(major), ctypes.byref(minor), handle) != 0:
            return None
        return major.value, minor.value

    def _attribute(self, which: int, handle: ctypes.c_int) -> int | None:
        return self._number(lambda number: self._library.cuDeviceGetAttribute(number, which, handle))

    @staticmethod
    def _number(ask: Callable[[object], int]) -> int | None:
        number = ctypes.c_int()
        return number.value if ask(ctypes.byref(number)) == 0 else None


#: A device as NVML names it: a pointer, which only NVML reads.
_Handle: TypeAlias = "ctypes._Pointer[ctypes.Structure]"


class Nvml:
    """NVML, initialized."""

    @classmethod
    def load(cls, tell: Callable[[str], None]) -> Nvml | None:
        """The library; None if it is missing."""
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            tell(f"diag: no NVML: {error}; no MIG instances and no measurements")
            return None
        return cls()

    def driver_version(self) -> str:
        """The driver's version, such as 550.54.15; empty if unknown."""
        return _text(_told(pynvml.nvmlSystemGetDriverVersion))

    def handles(self) -> list[_Handle]:
        """Handles of all GPUs, divided ones too."""
        return [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]

    def devices(self) -> NvmlDevices | None:
        """MIG instances and GPUs that are not divided; None when NVML fails halfway."""
        try:
            return self._devices()
        except pynvml.NVMLError:
            return None

    def measured(self, uuid: str) -> dict[str, str] | None:
        """The changing properties of the device with this UUID, as attributes."""
        handle = self._handle_of(uuid)
        if handle is None:
            return None
        single, double = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        values = {
            "FanSpeedPct": _told(pynvml.nvmlDeviceGetFanSpeed, handle),
            "PowerUsage_mw": _told(pynvml.nvmlDeviceGetPowerUsage, handle),
            "DieTempC": _told(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            "EccErrorsSingleBit": _told(pynvml.nvmlDeviceGetTotalEccErrors, handle, single, pynvml.NVML_VOLATILE_ECC),
            "EccErrorsDoubleBit": _told(pynvml.nvmlDeviceGetTotalEccErrors, handle, double, pynvml.NVML_VOLATILE_ECC),
        }
        return {name: str(value) for name, value in values.items() if value is not None}

    def is_lost(self, uuid: str) -> bool:
        """Whether a GPU has fallen off the bus, or is otherwise out of the driver's reach until it is reset."""
        try:
            handle = self._handle_of(uuid)
            if handle is not None:
                pynvml.nvmlDeviceGetMemoryInfo(handle)
        except (pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_ResetRequired):
            return True
        except pynvml.NVMLError:
            return False
        return False

    def uuids(self) -> list[str]:
        """The UUIDs of all GPUs."""
        return [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in self.handles()]

    def sample(self, uuid: str, after_us: int) -> tuple[list[tuple[int, int]], int] | None:
        """A GPU's use in percent with the times of its samples (microseconds) after ``after_us``; its memory in use.

        None: the device does not answer.
        """
        handle = self._handle_of(uuid)
        memory = None if handle is None else _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
        if memory is None:
            return None
        taken = _told(pynvml.nvmlDeviceGetSamples, handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, after_us)
        samples = taken[1] if taken else []
        return [(int(one.timeStamp), int(one.sampleValue.uiVal)) for one in samples], int(memory.used)

    def _devices(self) -> NvmlDevices:
        whole: list[Device] = []
        instances: dict[str, Device] = {}
        children: dict[str, list[str]] = {}
        for handle in self.handles():
            most = _told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle)
            if not most:
                whole.append(self._device(handle))
                continue
            for instance in self._instances(handle, most):
                device = self._device(instance)
                instances[device.uuid] = device
                children.setdefault(_text(pynvml.nvmlDeviceGetUUID(handle)), []).append(device.uuid)
        return NvmlDevices([*(instances[uuid] for uuid in sorted(instances)), *whole], children)

    @staticmethod
    def _instances(handle: _Handle, most: int) -> list[_Handle]:
        # Instances that do not exist have no handle.
        made = (_told(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index) for index in range(most))
        return [instance for instance in made if instance is not None]

    @staticmethod
    def _device(handle: _Handle) -> Device:
        memory = _told(pynvml.nvmlDeviceGetMemoryInfo, handle)
        clock = _told(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_GRAPHICS)
        ecc = _told(pynvml.nvmlDeviceGetEccMode, handle)
        share = _told(pynvml.nvmlDeviceGetAttributes, handle)
        pci = _told(pynvml.nvmlDeviceGetPciInfo, handle)
        capability = _told(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
        return Device(
            uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
            name=_text(_told(pynvml.nvmlDeviceGetName, handle)),
            pci_bus_id=_text(getattr(pci, "busIdLegacy", "")),
            capability=None if capability is None else (int(capability[0]), int(capability[1])),
            clock_khz=None if clock is None else clock * 1000,
            compute_units=getattr(share, "multiprocessorCount", None),
            memory_bytes=getattr(memory, "total", None),
            ecc=None if ecc is None else bool(ecc[0]),
        )

    def _handle_of(self, uuid: str) -> _Handle | None:
        if not uuid.startswith("MIG-"):
            return _told(pynvml.nvmlDeviceGetHandleByUUID, f"GPU-{bare_uuid(uuid)}")
        # NVML does not find MIG instances by their UUIDs.
        for handle in self.handles():
            for instance in self._instances(handle, _told(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
                if _text(_told(pynvml.nvmlDeviceGetUUID, instance)) == uuid:
                    return instance
        return None


# pynvml has no types: its answers are converted where it is called.
def _told(ask: Callable[..., Any], *words: object) -> Any:
    """An answer of NVML; None if it has none for this device, or is too old to answer."""
    try:
        return ask(*words)
    except pynvml.NVMLError:
        return None


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")
