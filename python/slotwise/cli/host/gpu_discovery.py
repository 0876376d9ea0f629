"""``slotwise gpu-discovery``: the GPUs of this host, for MACHINE_RESOURCE_INVENTORY_GPUs and STARTD_DETECT_GPUS.

Source: manual page of condor_gpu_discovery: options, abbreviations, and what the report looks like.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypedDict

from msgspec.structs import replace

from slotwise.cli.common.options import OPTIONAL, Given, Option, parse
from slotwise.errors import UsageError

if TYPE_CHECKING:
    from slotwise.cli.common.invocation import Invocation
    from slotwise.gpus.libraries import Libraries
    from slotwise.gpus.report import Kind, Request

#: Variables that hide devices from this process; what they name is what is reported.
_VISIBLE = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_VISIBLE_TO_HIP = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_PREFIX_MOST = 80
_KINDS: dict[str, Kind] = {"cuda": "cuda", "hip": "hip", "opencl": "opencl"}

_OPTIONS = [
    *(Option(name, least) for name, least in (
        ("help", 1), ("properties", 1), ("extra", 3), ("nested", 2), ("not-nested", 6), ("dynamic", 3), ("cron", 4),
        ("mixed", 3), ("check", 0), ("opencl", 0), ("cuda", 0), ("hip", 0), ("verbose", 4), ("diagnostic", 4))),
    Option("no-nested", 5, stands_for="not-nested"),
    Option("hetero", 3, stands_for="mixed"),
    Option("repeat", 0, OPTIONAL),
    Option("divide", 0, OPTIONAL),
    *(Option(name, least) for name, least in (("packed", 0), ("config", 0))),
    Option("tag", 3, 1),
    *(Option(name, least) for name, least in (("by-index", 4), ("uuid", 2), ("short-uuid", 0))),
    Option("prefix", 3, 1),
    Option("device", 3, 1),
    Option("simulate", 3),
    Option("fix-hip-guid", 7, 1),
    *(Option(name, least) for name, least in (("nvcuda", 0), ("cudart", 6), ("dirty-environment", 4))),
]  # fmt: skip
USAGE = """usage: slotwise gpu-discovery [options]
  -properties        properties of each device that jobs are matched by
  -extra             also clocks and cores
  -dynamic           also what changes: temperature, power, memory errors
  -cron              for a STARTD_CRON job: the properties alone
  -mixed             every property with each device, also those that all share
  -check             also OfflineGPUs: the devices that the driver has lost
  -nested            properties of a device as a nested ad (default); -not-nested as attributes with its id in front
  -short-uuid        devices are called by the first eight characters of their UUID (default); -uuid: by all of it;
                     -by-index: by their place, as CUDA0
  -device N          only this device (several: -device again); an index, an id, or the beginning of one
  -tag NAME          name of the resource (default GPUs)
  -prefix NAME       what ids by index and shared properties begin with (default CUDA, GPU or OCL)
  -cuda -hip -opencl ask this library; without them each in this order until one has devices
  -config            as lines for a configuration file
  -repeat [N]        list every device N times (default 2); -divide [N]: as parts that share its memory;
                     -packed: the parts of a device one after the other
  -simulate[:D[,N[,D,N...]]]
                     pretend to have N devices of a model: 0 GeForce GT 330, 1 GeForce GTX 480,
                     2 Tesla V100-PCIE-16GB, 3 TITAN RTX, 4 A100-SXM4-40GB, 5 and 7 A100 in MIG mode 3g.20gb,
                     6 A100 in MIG mode 1g.5gb, 8 one of each
  -fix-hip-guid MODEL  the hexadecimal number of the model that makes UUIDs of what ROCm 6 tells
  -dirty-environment   leave CUDA_VISIBLE_DEVICES and its like to the libraries
  -verbose, -diagnostic  say on standard error which libraries were asked and what they answered"""


def main(args: list[str], inv: Invocation) -> int:
    """Report the GPUs; status 0 also when there are none."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if parsed.words:
        raise UsageError(f"option {parsed.words[0]} is not valid", hint="--help lists the options")
    from slotwise.gpus.report import Request, discover

    request = Request(only=_visible(inv, _VISIBLE), only_hip=_visible(inv, _VISIBLE_TO_HIP))
    for given in parsed.options:
        request = _with(request, given)
    if parsed.has("simulate"):  # what is pretended are CUDA's devices
        request = replace(request, kinds=("cuda",))
    libraries = _libraries(parsed.options, inv, told=parsed.has("verbose") or parsed.has("diagnostic"))
    report = discover(request, libraries)
    for line in report.warnings:
        inv.err(line)
    for line in report.lines:
        inv.out(line)
    return 0


class _Change(TypedDict, total=False):
    """Fields of a request that an option sets."""

    properties: bool
    extra: bool
    dynamic: bool
    nested: bool
    cron: bool
    mixed: bool
    check: bool
    packed: bool
    config: bool
    ids: Literal["index", "uuid", "short"]
    tag: str
    prefix: str
    only: frozenset[str]


def _with(request: Request, given: Given) -> Request:
    """The request with one more option; later ones override."""
    value = given.values[0] if given.values else ""
    simple: dict[str, _Change] = {
        "properties": {"properties": True},
        "extra": {"properties": True, "extra": True},
        "dynamic": {"properties": True, "dynamic": True},
        "nested": {"nested": True},
        "not-nested": {"nested": False},
        "cron": {"cron": True},
        "mixed": {"mixed": True},
        "check": {"check": True},
        "packed": {"packed": True},
        "config": {"config": True},
        "by-index": {"ids": "index"},
        "uuid": {"ids": "uuid"},
        "short-uuid": {"ids": "short"},
        "tag": {"tag": value},
        "prefix": {"prefix": value},
        "device": {"only": request.only | frozenset(_names([value]))},
    }
    if given.name == "prefix" and len(value) > _PREFIX_MOST:
        raise UsageError(f"-prefix should be less than {_PREFIX_MOST} characters")
    if given.name in _KINDS:
        return replace(request, kinds=(*request.kinds, _KINDS[given.name]))
    if given.name in ("repeat", "divide"):
        count = _count(value, given.name) if value else request.repeat or 2
        return replace(request, repeat=count, divide=given.name == "divide")
    return replace(request, **simple.get(given.name, {}))


def _count(value: str, name: str) -> int:
    if not value.isdecimal():
        raise UsageError(f"-{name} {value}: {value} is not a whole number")
    return int(value)


def _visible(inv: Invocation, names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_names(inv.env.get(name, "") for name in names))


def _names(texts: Iterable[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


def _libraries(options: list[Given], inv: Invocation, *, told: bool) -> Libraries:
    """The host's libraries, or those that the options pretend."""
    from slotwise.gpus.host import HostLibraries
    from slotwise.gpus.simulated import Simulated, parse_models

    model, pretended = 0, 0
    for given in options:
        if given.name == "cudart":
            raise UsageError("-cudart: the driver's library is asked, not the CUDA runtime's", hint="leave it out")
        if given.name == "fix-hip-guid":
            try:
                model = int(given.values[0], 16)
            except ValueError:
                raise UsageError(f"-fix-hip-guid {given.values[0]}: not a hexadecimal number") from None
            pretended = _count(given.letters, "fix-hip-guid") if given.letters else 0
    simulated = [given for given in options if given.name == "simulate"]
    if simulated or pretended:
        models = [parse_models(given.letters if given.colon else None) for given in simulated]
        return Simulated(tuple(index for some in models for index in some), hip=pretended, hip_model=model)
    hidden = () if any(given.name == "dirty-environment" for given in options) else (*_VISIBLE, *_VISIBLE_TO_HIP)
    return HostLibraries(hidden=hidden, hip_model=model, tell=inv.err if told else None)
