"""AMD's devices: HIP's library by ctypes, of ROCm 6 and 7."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from slotwise.gpus.device import Device, rocm_uuid
from slotwise.gpus.shared_library import load_library

_LIBRARIES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so")
_INT, _SIZE = ctypes.c_int, ctypes.c_size_t


class _Properties(ctypes.Structure):
    """``hipDeviceProp_tR0600`` up to the last field that is read, with room for the rest."""

    _fields_ = [
        ("name", ctypes.c_char * 256),
        ("uuid", ctypes.c_ubyte * 16),
        ("luid", ctypes.c_char * 8),
        ("luid_device_node_mask", ctypes.c_uint),
        ("total_global_mem", _SIZE),
        ("shared_mem_per_block", _SIZE),
        ("regs_per_block", _INT),
        ("warp_size", _INT),
        ("mem_pitch", _SIZE),
        ("max_threads_per_block", _INT),
        ("max_threads_dim", _INT * 3),
        ("max_grid_size", _INT * 3),
        ("clock_rate", _INT),
        ("total_const_mem", _SIZE),
        ("major", _INT),
        ("minor", _INT),
        ("texture_alignment", _SIZE),
        ("texture_pitch_alignment", _SIZE),
        ("device_overlap", _INT),
        ("multi_processor_count", _INT),
        ("kernel_exec_timeout_enabled", _INT),
        ("integrated", _INT),
        ("can_map_host_memory", _INT),
        ("compute_mode", _INT),
        ("textures_and_surfaces", _INT * 40),
        ("surface_alignment", _SIZE),
        ("concurrent_kernels", _INT),
        ("ecc_enabled", _INT),
        ("pci_bus_id", _INT),
        ("pci_device_id", _INT),
        ("pci_domain_id", _INT),
        ("tcc_driver", _INT),
        ("async_engine_count", _INT),
        ("unified_addressing", _INT),
        ("rest", ctypes.c_char * 4096),
    ]


def load(tell: Callable[[str], None]) -> ctypes.CDLL | None:
    """The newest installed library that has the properties in this form."""
    library = load_library(_LIBRARIES, tell)
    if library is not None and not hasattr(library, "hipGetDevicePropertiesR0600"):
        tell("diag: this HIP library is older than ROCm 6")
        return None
    return library


def devices(hip: ctypes.CDLL, model: int) -> list[Device]:
    """All devices; ``model`` as in -fix-hip-guid."""
    count, version = ctypes.c_int(), ctypes.c_int()
    if hip.hipGetDeviceCount(ctypes.byref(count)) != 0:
        return []
    has_version = hip.hipDriverGetVersion(ctypes.byref(version)) == 0
    found = []
    for index in range(count.value):
        about = _Properties()
        if hip.hipGetDevicePropertiesR0600(ctypes.byref(about), index) == 0:
            if hasattr(hip, "hipDeviceGetUuid"):
                hip.hipDeviceGetUuid(ctypes.byref(about, _Properties.uuid.offset), index)
            found.append(_device(about, version.value if has_version else None, model))
    return found


def _device(about: _Properties, version: int | None, model: int) -> Device:
    bus = about.pci_bus_id or about.pci_device_id
    return Device(
        uuid=rocm_uuid(bytes(about.uuid), model),
        name=about.name.decode(errors="replace"),
        pci_bus_id=f"{about.pci_domain_id:04X}:{about.pci_bus_id:02X}:{about.pci_device_id:02X}.0" if bus else "",
        capability=(about.major, about.minor),
        clock_khz=about.clock_rate,
        compute_units=about.multi_processor_count,
        memory_bytes=about.total_global_mem,
        ecc=bool(about.ecc_enabled),
        driver_version=version,
        rocm=(version or 0) // 10_000_000,
        xnack=about.unified_addressing,
        warp_size=about.warp_size,
    )
