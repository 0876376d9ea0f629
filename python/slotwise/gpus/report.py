"""Decides which devices are reported, under which ids, and what the report says, from the libraries' answers.

Source: manual page of condor_gpu_discovery. The report is what HTCondor's program prints, and what
``MACHINE_RESOURCE_INVENTORY_GPUs`` expects: ``DetectedGPUs = "id, id"`` and the properties of each device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from slotwise.gpus.device import Device, bare_uuid, gpu_id
from slotwise.gpus.libraries import Libraries, NvmlDevices

Kind = Literal["cuda", "hip", "opencl"]
#: The prefix of ids by index.
_PREFIXES: Mapping[Kind, str] = {"cuda": "CUDA", "hip": "GPU", "opencl": "OCL"}
#: A device's place in the list: ``2``, ``CUDA2``.
_INDEX = re.compile(r"[A-Za-z]*([0-9]+)")


class Request(Struct, frozen=True):
    """The options of a call. ``ids``: the form of devices' ids; ``short`` unless their libraries have no UUIDs.

    ``only``: devices to report (indexes, ids or beginnings of ids; none: all), ``only_hip`` likewise among AMD's.
    ``kinds``: the libraries to ask; none: each in turn until one has devices. ``repeat``: how often each id is listed
    (0: once), with ``divide`` as parts that share a device's memory.
    """

    properties: bool = False
    extra: bool = False
    dynamic: bool = False
    nested: bool = True
    mixed: bool = False
    config: bool = False
    cron: bool = False
    ids: Literal["short", "uuid", "index", "default"] = "default"
    tag: str = "GPUs"
    prefix: str = ""
    only: frozenset[str] = frozenset()
    only_hip: frozenset[str] = frozenset()
    kinds: tuple[Kind, ...] = ()
    repeat: int = 0
    divide: bool = False
    packed: bool = False
    #: Name the devices that the driver has lost.
    check: bool = False


class Report(Struct):
    """The lines to print, and those for standard error."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Enumerated(Struct, frozen=True):
    devices: Sequence[Device]
    kind: Kind
    nvml: NvmlDevices | None


def discover(request: Request, libraries: Libraries) -> Report:
    """Ask the libraries and report what they have."""
    found = _enumerate(request, libraries)
    if not found.devices:
        return _nothing(request)
    report = Report()
    if found.kind != "opencl" and not all(device.uuid for device in found.devices) and request.ids in ("short", "uuid"):
        _complain(report, "A device has no UUID, so it is called by its index. Newer driver libraries may give one.")
    if request.ids == "default":
        has_uuids = found.kind == "hip" or all(device.uuid for device in found.devices)
        request = replace(request, ids="short" if has_uuids else "index")
    chosen = _Chosen(request, found)
    properties = chosen.properties if request.properties else {}
    common = {} if request.mixed else _common(properties, divided=request.divide)
    if request.dynamic:
        _add_measured(properties, chosen.uuids, libraries)
    if request.repeat and request.divide:
        _divide_memory(properties, request.repeat)
    ids = ", ".join(_repeated(chosen.ids, request))
    if not request.cron:
        report.lines.append(f"Detected{request.tag}={ids}" if request.config else f'Detected{request.tag}="{ids}"')
    if request.config:
        report.lines.append(f"NUM_DETECTED_{request.tag}={len(chosen.ids)}")
    if request.check:
        lost = [name for name in chosen.ids if libraries.is_lost(chosen.uuids.get(name, ""))]
        report.lines += [f'Offline{request.tag}="{", ".join(lost)}"'] if lost else []
    report.lines += _property_lines(request, request.prefix or _PREFIXES[found.kind], common, properties)
    return report


def _enumerate(request: Request, libraries: Libraries) -> _Enumerated:
    """Ask CUDA first; HIP and OpenCL on request, or if the others have no device."""
    kinds = request.kinds
    cuda = (libraries.cuda() or []) if not kinds or "cuda" in kinds else []
    if kinds == ("cuda",) or (cuda and "hip" not in kinds):
        return _with_nvml(cuda, libraries)
    hip = libraries.hip() if "hip" in kinds or not (cuda or "opencl" in kinds) else None
    if hip:
        nvml = _with_nvml(cuda, libraries).nvml if cuda else None
        return _Enumerated([*cuda, *hip], "hip", nvml)
    if not cuda and ("opencl" in kinds or "hip" not in kinds):
        return _Enumerated(libraries.opencl() or [], "opencl", None)
    return _with_nvml(cuda, libraries)


def _with_nvml(cuda: list[Device], libraries: Libraries) -> _Enumerated:
    nvml = libraries.nvml() if cuda and all(device.uuid for device in cuda) else None
    return _Enumerated(cuda, "cuda", nvml)


def _nothing(request: Request) -> Report:
    report = Report()
    if not request.cron:
        report.lines.append(f"Detected{request.tag}=0")
    if request.config:
        report.lines.append(f"NUM_DETECTED_{request.tag}=0")
    return report


def _complain(report: Report, text: str) -> None:
    """As an attribute, too, so that the machine's ad has it."""
    report.warnings.append(f"# {text}")
    report.lines.append(f'condor_gpu_discovery_error = "{text}"')


class _Selection:
    """The devices to report: by their place in the list, or by the beginning of their id."""

    def __init__(self, names: Iterable[str]) -> None:
        self._indexes: set[int] = set()
        self._prefixes: set[str] = set()
        self._parents: set[str] = set()
        for name in names:
            if found := _INDEX.fullmatch(name):
                self._indexes.add(int(found.group(1)))
            else:
                self._prefixes.add(name)

    def leaves_out(self, index: int) -> bool:
        """Whether its place in the list alone rules a device out."""
        return bool(self._indexes) and not (self._prefixes or self._parents) and index not in self._indexes

    def has(self, full_id: str, index: int) -> bool:
        """Whether a device is wanted."""
        if any(full_id.startswith(prefix) for prefix in self._prefixes):
            return True
        if full_id.removeprefix("MIG-") in self._parents:
            return True
        return index in self._indexes if self._indexes else not (self._prefixes or self._parents)

    def add_instances_of(self, uuid: str, index: int) -> None:
        """A divided GPU that is selected by its place is selected with all its MIG instances."""
        if index in self._indexes or (not self._indexes and self._prefixes):
            self._prefixes.add(f"MIG-GPU-{uuid}")
            self._parents.add(uuid)


class _Chosen:
    """The devices that are reported: ids in order, properties and UUIDs by id."""

    def __init__(self, request: Request, found: _Enumerated) -> None:
        self.ids: list[str] = []
        self.properties: dict[str, dict[str, str]] = {}
        self.uuids: dict[str, str] = {}
        self._request = request
        selection = _Selection(request.only | (request.only_hip if found.kind == "hip" else frozenset()))
        nvml = found.nvml or NvmlDevices(())
        for index, device in enumerate(found.devices):
            if selection.leaves_out(index):
                continue
            if device.uuid and not selection.has(gpu_id(device.uuid, short=False), index):
                continue
            if f"GPU-{device.uuid}" in nvml.children:
                selection.add_instances_of(device.uuid, index)
                continue
            self._add(self._id(device, index, request.prefix or _PREFIXES[found.kind]), device)
        seen = {device.uuid for device in found.devices}
        by_uuid = {device.uuid: device for device in found.devices}
        parents = {child: parent for parent, children in nvml.children.items() for child in children}
        for device in nvml.devices:
            if bare_uuid(device.uuid) in seen or not selection.has(device.uuid, -1) or device.uuid in nvml.children:
                continue
            parent = by_uuid.get(bare_uuid(parents.get(device.uuid, "")))
            short = request.ids in ("short", "default")
            self._add(gpu_id(device.uuid, short=short), device if parent is None else _inherited(device, parent))

    def _id(self, device: Device, index: int, prefix: str) -> str:
        if self._request.ids == "index" or not device.uuid:
            return f"{prefix}{index}"
        return gpu_id(device.uuid, short=self._request.ids == "short")

    def _add(self, name: str, device: Device) -> None:
        self.ids.append(name)
        self.properties[name] = device.properties(extra=self._request.extra)
        if device.uuid:
            self.uuids[name] = device.uuid


def _inherited(instance: Device, parent: Device) -> Device:
    """A MIG instance, with the properties that only its GPU has. Its name and its share of the units are its own."""
    return replace(
        instance,
        capability=instance.capability or parent.capability,
        clock_khz=parent.clock_khz if instance.clock_khz is None else instance.clock_khz,
        ecc=parent.ecc if instance.ecc is None else instance.ecc,
        driver_version=parent.driver_version if instance.driver_version is None else instance.driver_version,
        driver=instance.driver or parent.driver,
        pci_bus_id=instance.pci_bus_id or parent.pci_bus_id,
    )


def _common(properties: Mapping[str, Mapping[str, str]], *, divided: bool) -> dict[str, str]:
    """The properties that all devices share."""
    if not properties:
        return {}
    first, *others = properties.values()
    shared = {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}
    if divided:
        shared.pop("GlobalMemoryMb", None)  # each device has its own part
    return shared


def _add_measured(properties: dict[str, dict[str, str]], uuids: Mapping[str, str], libraries: Libraries) -> None:
    for name, about in properties.items():
        about |= (libraries.measured(uuids[name]) if name in uuids else None) or {}


def _divide_memory(properties: dict[str, dict[str, str]], parts: int) -> None:
    for about in properties.values():
        if "GlobalMemoryMb" in about:
            whole = int(about["GlobalMemoryMb"])
            about["GlobalMemoryMb"] = str(whole // parts)
            if whole:
                about["DeviceMemoryMb"] = str(whole)


def _repeated(ids: Sequence[str], request: Request) -> list[str]:
    if request.repeat <= 1:
        return list(ids)
    if request.packed:
        return [name for name in ids for _ in range(request.repeat)]
    return list(ids) * request.repeat


def _property_lines(
    request: Request, prefix: str, common: Mapping[str, str], properties: Mapping[str, Mapping[str, str]]
) -> list[str]:
    lines = []
    if common and request.nested:
        lines.append(f"Common=[ {_joined(common)}]")
    elif common:
        lines += [f"{prefix}{name}={common[name]}" for name in sorted(common)]
    for device in sorted(properties):
        if not properties[device]:
            continue
        own = {name: value for name, value in properties[device].items() if name not in common}
        attribute = device.replace("-", "_").replace("/", "_")
        if request.nested:
            lines.append(f'{attribute}=[ id="{device}"; {_joined(own)}]')
        else:
            lines += [f"{attribute}{name}={own[name]}" for name in sorted(own)]
    return lines


def _joined(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={properties[name]}; " for name in sorted(properties))
