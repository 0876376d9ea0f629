"""GPUs that OpenCL finds, by ctypes: those of makers without a module of their own here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from slotwise.gpus.device import Device, OpenClDevice
from slotwise.gpus.shared_library import load_library

_LIBRARIES = ("libOpenCL.so.1", "libOpenCL.so")
_GPU = 4  # CL_DEVICE_TYPE_GPU
_COMPUTE_UNITS, _CLOCK_MHZ, _MEMORY, _ECC, _NAME, _VERSION = 0x1002, 0x100C, 0x101F, 0x1024, 0x102B, 0x102F


def load(tell: Callable[[str], None]) -> ctypes.CDLL | None:
    """The loader of OpenCL platforms."""
    return load_library(_LIBRARIES, tell)


def devices(opencl: ctypes.CDLL) -> list[Device]:
    """The GPUs of all platforms, in their order."""
    count = ctypes.c_uint()
    if opencl.clGetPlatformIDs(0, None, ctypes.byref(count)) != 0:
        return []
    platforms = (ctypes.c_void_p * count.value)()
    opencl.clGetPlatformIDs(count, platforms, None)
    return [_device(opencl, handle) for platform in platforms for handle in _gpus(opencl, ctypes.c_void_p(platform))]


def _gpus(opencl: ctypes.CDLL, platform: ctypes.c_void_p) -> list[ctypes.c_void_p]:
    count, kind = ctypes.c_uint(), ctypes.c_ulong(_GPU)
    if opencl.clGetDeviceIDs(platform, kind, 0, None, ctypes.byref(count)) != 0:
        return []
    handles = (ctypes.c_void_p * count.value)()
    opencl.clGetDeviceIDs(platform, kind, count, handles, None)
    return [ctypes.c_void_p(handle) for handle in handles]


def _device(opencl: ctypes.CDLL, handle: ctypes.c_void_p) -> Device:
    clock = _number(opencl, handle, _CLOCK_MHZ, ctypes.c_uint())
    ecc = _number(opencl, handle, _ECC, ctypes.c_uint())
    # "OpenCL 3.0 CUDA": the number in the middle.
    version = [*_text(opencl, handle, _VERSION).split(), "", ""][1]
    return OpenClDevice(
        name=_text(opencl, handle, _NAME),
        memory_bytes=_number(opencl, handle, _MEMORY, ctypes.c_ulonglong()),
        ecc=None if ecc is None else bool(ecc),
        compute_units=_number(opencl, handle, _COMPUTE_UNITS, ctypes.c_uint()),
        clock_khz=None if clock is None else clock * 1000,
        opencl_version=version if version.replace(".", "", 1).isdecimal() else "",
    )


def _number(
    opencl: ctypes.CDLL, handle: ctypes.c_void_p, what: int, room: ctypes.c_uint | ctypes.c_ulonglong
) -> int | None:
    size = ctypes.c_size_t(ctypes.sizeof(room))
    return room.value if opencl.clGetDeviceInfo(handle, what, size, ctypes.byref(room), None) == 0 else None


def _text(opencl: ctypes.CDLL, handle: ctypes.c_void_p, what: int) -> str:
    room = ctypes.create_string_buffer(4096)
    status = opencl.clGetDeviceInfo(handle, what, ctypes.c_size_t(len(room) - 1), room, None)
    return room.value.decode(errors="replace") if status == 0 else ""
