"""Simulated devices, for tests of configurations: ``-simulate:D,N``, with HTCondor's table of devices.

Source: manual page of condor_gpu_discovery, -simulate; the values were read from HTCondor 25.14's output.
"""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

from slotwise.errors import UsageError
from slotwise.gpus.device import Device, rocm_uuid, uuid_of
from slotwise.gpus.libraries import NvmlDevices

_MIB = 2**20


class _Model(Struct, frozen=True):
    """A line of the table; ``mig_mib`` is the memory of each MIG instance."""

    device: Device
    cuda: int
    mig_mib: tuple[int, ...] = ()


def _model(name: str, capability: tuple[int, int], mhz: int, units: int, ecc: bool, memory: int) -> Device:
    return Device(
        name=name, capability=capability, clock_khz=mhz * 1000, compute_units=units, ecc=ecc, memory_bytes=memory
    )


# HTCondor's A100s have 1204 instead of 1024 in their sizes: 47661 MiB is what it prints.
_ODD_MIB = 1024 * 1204
_A100_3G = _model("NVIDIA A100-SXM4-40GB MIG 3g.20gb", (8, 0), 1410, 42, True, 20096 * _ODD_MIB)
_A100_1G = _model("NVIDIA A100-SXM4-40GB MIG 1g.5gb", (8, 0), 1410, 42, True, 4864 * _ODD_MIB)
_TABLE = (
    _Model(_model("GeForce GT 330", (1, 2), 1340, 12, False, 1024 * _MIB), 6000),
    _Model(_model("GeForce GTX 480", (2, 0), 1400, 15, False, 1536 * _MIB), 4020),
    _Model(_model("Tesla V100-PCIE-16GB", (7, 0), 1380, 80, True, 24220 * _MIB), 11020),
    _Model(_model("TITAN RTX", (7, 5), 1770, 72, False, 24220 * _MIB), 11020),
    _Model(_model("A100-SXM4-40GB", (8, 0), 1410, 42, True, 40536 * _ODD_MIB), 11020),
    _Model(_A100_3G, 11020, (20086, 20082)),
    _Model(_A100_1G, 11040, (4861,) * 7),
    _Model(_A100_3G, 11040, (20086, 20082)),
)
#: Drivers from this CUDA version on name MIG instances by UUIDs of their own.
_OWN_MIG_UUIDS = 11040
#: Devices from this line on have a library that supports MIG.
_KNOWS_MIG = 2


class Simulated:
    """The libraries of a host with the simulated devices."""

    def __init__(self, models: tuple[int, ...], *, hip: int = 0, hip_model: int = 0) -> None:
        self._models = [_TABLE[index] for index in models]
        self._knows_mig = any(index >= _KNOWS_MIG for index in models)
        self._hip, self._hip_model = hip, hip_model

    def cuda(self) -> list[Device]:
        """The devices, MIG instances aside."""
        return [
            replace(model.device, uuid=_uuid(index), pci_bus_id=f"0000:{index + 0x40:02x}:00.0")
            for index, model in enumerate(self._models)
        ]

    def nvml(self) -> NvmlDevices | None:
        """The MIG instances, if the library supports them."""
        if not self._knows_mig:
            return None
        instances: dict[str, Device] = {}
        children: dict[str, list[str]] = {}
        for index, model in enumerate(self._models):
            for instance, mib in enumerate(model.mig_mib):
                uuid = _mig_uuid(index, instance, model.cuda)
                about = model.device
                instances[uuid] = Device(uuid=uuid, clock_khz=about.clock_khz, ecc=about.ecc, memory_bytes=mib * _MIB)
                children.setdefault(f"GPU-{_uuid(index)}", []).append(uuid)
        return NvmlDevices([instances[uuid] for uuid in sorted(instances)], children)

    def hip(self) -> list[Device] | None:
        """AMD's devices, if their library is simulated."""
        if not self._hip:
            return None
        return [_instinct(index, self._hip_model) for index in range(self._hip)]

    def opencl(self) -> list[Device] | None:
        """There is none."""
        return None

    def is_lost(self, uuid: str) -> bool:
        """None is."""
        return False

    def measured(self, uuid: str) -> dict[str, str] | None:
        """Temperatures and the like, which do not change."""
        found = re.match(r"([0-9a-f]{2})2233[0-9a-f]{2}-", uuid)
        if found is None:
            return None
        number = 0x100 | int(found.group(1), 16) & 0x0F
        return {
            "FanSpeedPct": str(9 + number),
            "PowerUsage_mw": str(29 + number),
            "DieTempC": str(89 + number),
            "EccErrorsSingleBit": "0",
            "EccErrorsDoubleBit": "0",
        }


def parse_models(text: str | None) -> tuple[int, ...]:
    """The lines of the table that the text behind ``-simulate:`` selects; None is ``-simulate`` alone.

    The text has pairs of line and number; the last number may be missing. The number of lines in the table means one of
    each.

    :raises UsageError: a line is not in the table.
    """
    if text is None:
        return (0,)
    words = text.split(",") if text else []
    if words and words[0] == str(len(_TABLE)):
        return tuple(range(len(_TABLE)))
    models: list[int] = []
    for at in range(0, len(words), 2):
        line, count = words[at], words[at + 1] if at + 1 < len(words) else "1"
        if not (line.isdecimal() and int(line) < len(_TABLE) and count.isdecimal()):
            raise UsageError(
                f"-simulate:{text}: simulation must be in range of 0-{len(_TABLE)}",
                hint="-simulate:D,N is N devices of line D; --help lists them",
            )
        models += [int(line)] * int(count)
    return tuple(models)


def _uuid(index: int, last: int = 0x34) -> str:
    first = (index * 0x11 + 0xA0) & 0xFF
    return uuid_of(bytes([first, 0x22, 0x33, last & 0xFF]) + bytes.fromhex("44455667899aabbccddeeff0"))


def _mig_uuid(index: int, instance: int, cuda: int) -> str:
    if cuda >= _OWN_MIG_UUIDS:
        return f"MIG-{_uuid(index, instance)}"
    return f"MIG-GPU-{_uuid(index)}/{instance}/0"


def _instinct(index: int, model: int) -> Device:
    """An MI300A whose library has a number instead of a UUID, as in ROCm 6: ``model`` turns it into one."""
    digits = bytes([ord("1") + index]) * 16
    return Device(
        uuid=rocm_uuid(digits, model),
        name="AMD Instinct MI300A",
        pci_bus_id=f"{index:04X}:02:00.0",
        capability=(9, 4),
        clock_khz=2_100_000,
        compute_units=228,
        memory_bytes=131072 * _MIB,
        ecc=True,
        driver_version=60_342_131,
        rocm=6,
        xnack=1,
        warp_size=64,
    )
