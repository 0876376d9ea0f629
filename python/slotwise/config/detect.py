"""Facts of the host that are macros in every configuration: ``$(ARCH)``, ``$(DETECTED_CPUS)``, ``$(FULL_HOSTNAME)``.

Names and forms are HTCondor's (manual, "Pre-Defined Macros").
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

Pairs = list[tuple[str, str]]

_ARCHES = {"x86_64": "X86_64", "amd64": "X86_64", "i386": "INTEL", "i486": "INTEL", "i586": "INTEL", "i686": "INTEL"}
#: os-release ID to HTCondor's short name.
_DISTRIBUTIONS = {
    "debian": "Debian",
    "ubuntu": "Ubuntu",
    "rhel": "RedHat",
    "centos": "CentOS",
    "fedora": "Fedora",
    "rocky": "Rocky",
    "almalinux": "AlmaLinux",
    "scientific": "SL",
    "opensuse": "openSUSE",
    "opensuse-leap": "openSUSE",
    "sles": "SLES",
    "amzn": "AmazonLinux",
}


@lru_cache(maxsize=1)
def operating_system() -> dict[str, str]:
    """ARCH, OPSYS and their relatives."""
    uname = os.uname()
    release = _os_release()
    distribution = _DISTRIBUTIONS.get(release.get("ID", ""), release.get("ID", "") or "Linux")
    version = release.get("VERSION_ID", "")
    major = version.split(".")[0] if version else ""
    minor = version.split(".")[1] if "." in version else "0"
    number = str(int(major) * 100 + int(minor)) if major.isdigit() and minor.isdigit() else "0"
    longname = f"{release.get('NAME', distribution)} {version}".strip()
    return {
        "ARCH": _ARCHES.get(uname.machine, uname.machine),
        "UNAME_ARCH": uname.machine,
        "OPSYS": uname.sysname.upper(),
        "OPSYSVER": number,
        "OPSYSANDVER": f"{distribution}{major}",
        "UNAME_OPSYS": uname.sysname,
        "OPSYSMAJORVER": major or "0",
        "OPSYSNAME": distribution,
        "OPSYSLONGNAME": longname,
        "OPSYSSHORTNAME": distribution,
        "OPSYSLEGACY": uname.sysname.upper(),
        "UTSNAME_SYSNAME": uname.sysname,
        "UTSNAME_NODENAME": uname.nodename,
        "UTSNAME_RELEASE": uname.release,
        "UTSNAME_VERSION": uname.version,
        "UTSNAME_MACHINE": uname.machine,
    }


def _os_release() -> dict[str, str]:
    fields: dict[str, str] = {}
    for name in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            key, eq, value = line.partition("=")
            if eq:
                fields[key.strip()] = value.strip().strip("\"'")
        break
    return fields


def _physical_cpus(logical: int) -> int:
    """Cores without hyper-threads, counted from /proc/cpuinfo."""
    cores: set[tuple[str, str]] = set()
    package = ""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "physical id":
                package = value.strip()
            elif key.strip() == "core id":
                cores.add((package, value.strip()))
    except OSError:
        pass
    return len(cores) or logical


@lru_cache(maxsize=1)
def capacity() -> dict[str, int]:
    """Processors, and memory in MiB."""
    logical = os.cpu_count() or 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20)
    return {"logical": logical, "physical": _physical_cpus(logical), "memory_mib": memory}


@lru_cache(maxsize=1)
def host_names() -> tuple[str, str]:
    """Short and full host name. The full one comes from the name service, if it knows the host."""
    name = os.uname().nodename
    full = name
    if "." not in name:
        try:
            found = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
            canonical = next((entry[3] for entry in found if entry[3]), "")
            if canonical.split(".")[0].lower() == name.lower():
                full = canonical
        except OSError:
            pass
    return name.split(".")[0], full


@lru_cache(maxsize=1)
def addresses() -> tuple[str, str]:
    """The IPv4 and IPv6 addresses by which this host reaches others; loopback and empty without a network."""
    found = []
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            found.append("")
    return found[0] or "127.0.0.1", found[1]


@lru_cache(maxsize=1)
def _home_of_condor() -> str:
    """The home directory of the account condor; empty where there is none. Accounts are looked up once a process, as
    names are: a resident command server reads the configuration for each call."""
    try:
        return pwd.getpwnam("condor").pw_dir
    except KeyError:
        return ""


@lru_cache(maxsize=16)
def _account(uid: int) -> str:
    """The name of an account; empty where the host knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def early_facts(env: Mapping[str, str], subsystem: str, local_name: str | None) -> Pairs:
    """Facts that files may override."""
    facts = list(operating_system().items())
    has = capacity()
    logical, physical = has["logical"], has["physical"]
    if tilde := _home_of_condor():
        facts.append(("TILDE", tilde))
    facts += [
        ("CondorIsAdmin", "false"),
        ("SUBSYSTEM", subsystem),
        ("LOCALNAME", local_name or subsystem),
        ("DETECTED_MEMORY", str(has["memory_mib"])),
        ("DETECTED_PHYSICAL_CPUS", str(physical)),
        ("DETECTED_CPUS", str(logical)),
        ("DETECTED_CORES", str(logical)),
    ]
    limit = logical
    for name in ("OMP_THREAD_LIMIT", "SLURM_CPUS_ON_NODE"):
        value = env.get(name, "")
        if value.isdigit() and 0 < int(value) < limit:
            limit = int(value)
    if limit < logical:
        facts.append(("DETECTED_CPUS_LIMIT", str(limit)))
    return facts


def firm_facts(subsystem: str, local_name: str | None) -> Pairs:
    """Facts that no file can override."""
    short, full = host_names()
    v4, v6 = addresses()
    uid = os.getuid()
    user = _account(uid)
    facts = [
        ("HOSTNAME", short),
        ("FULL_HOSTNAME", full),
        ("SUBSYSTEM", subsystem),
        ("LOCALNAME", local_name or subsystem),
        ("REAL_UID", str(uid)),
        ("REAL_GID", str(os.getgid())),
        ("PID", str(os.getpid())),
        ("PPID", str(os.getppid())),
        ("DETECTED_CPUS", str(capacity()["logical"])),
        ("IP_ADDRESS", v4),
        ("IP_ADDRESS_IS_IPV6", "false"),
        ("IPV4_ADDRESS", v4),
    ]
    if user:
        facts.append(("USERNAME", user))
    if v6:
        facts.append(("IPV6_ADDRESS", v6))
    return facts
