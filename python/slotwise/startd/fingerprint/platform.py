"""Architecture and operating system, in HTCondor's spelling: X86_64, LINUX, Debian12."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from slotwise.startd.fingerprint import Attributes

_ARCH = {
    "x86_64": "X86_64",
    "amd64": "X86_64",
    "i686": "INTEL",
    "i386": "INTEL",
    "ppc64le": "ppc64le",
    "aarch64": "aarch64",
}
#: os-release ID -> the name that HTCondor builds attributes from.
_NAMES = {
    "debian": "Debian", "ubuntu": "Ubuntu", "rhel": "RedHat", "centos": "CentOS", "fedora": "Fedora", "rocky": "Rocky",
    "almalinux": "AlmaLinux", "opensuse-leap": "openSUSE", "sles": "SLES", "amzn": "AmazonLinux", "ol": "OracleLinux",
    "arch": "Arch", "alpine": "Alpine", "scientific": "SL", "raspbian": "Raspbian",
}  # fmt: skip


def read(root: Path = Path("/"), machine: str | None = None) -> Attributes:
    """Arch, OpSys and their relatives."""
    release = _os_release(root)
    identity = release.get("ID", "linux").lower()
    name = _NAMES.get(identity, identity.capitalize())
    numbers = [*re.findall(r"\d+", release.get("VERSION_ID", "")), "0", "0"]
    major, minor = int(numbers[0]), int(numbers[1])
    long_name = release.get("PRETTY_NAME", name)
    hardware = machine or os.uname().machine
    attributes: Attributes = {
        "Arch": _ARCH.get(hardware, hardware),
        "OpSys": "LINUX",
        "OpSysLegacy": "LINUX",
        "OpSysName": name,
        "OpSysShortName": name,
        "OpSysLongName": long_name,
        "OpSysMajorVer": major,
        "OpSysVer": major * 100 + minor,
        "OpSysAndVer": f"{name}{major}" if major else name,
    }
    attributes.update(_kernel())
    if _ARCH.get(hardware) == "X86_64":
        level = _microarchitecture(root)
        if level:
            attributes["Microarch"] = level
    return attributes


def _kernel() -> Attributes:
    """What the kernel says of itself and the host, as ``uname -a`` prints it."""
    told = os.uname()
    return {
        "UtsnameMachine": told.machine,
        "UtsnameNodename": told.nodename,
        "UtsnameRelease": told.release,
        "UtsnameSysname": told.sysname,
        "UtsnameVersion": told.version,
    }


def _os_release(root: Path) -> Mapping[str, str]:
    for path in (root / "etc/os-release", root / "usr/lib/os-release"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        return {key.strip(): value.strip().strip("\"'") for key, value in pairs}
    return {}


_LEVELS = (
    ("x86_64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
    ("x86_64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86_64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
)


def _microarchitecture(root: Path) -> str | None:
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    if not found:
        return None
    flags = set(found[1].split())
    best = "x86_64-v1"
    for level, needed in _LEVELS:
        if not needed <= flags:
            break
        best = level
    return best
