"""What the daemon says of a container that has ended, and of itself. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slotwise.execution.exit_status import CONTAINER_FAILED
from slotwise.execution.keeper_spec import KeeperResult

_SIGNALS_END = 65
#: Exit codes of a shell for a signal begin above this.
_BY_SIGNAL = 128
#: Words of a client or a daemon that fail for this host's sake, whatever the image.
_HOST_FAILURES = (
    "cannot connect to the docker daemon",
    "is the docker daemon running",
    "error during connect",
    "resource temporarily unavailable",
    "permission denied while trying to connect",
    "no space left on device",
    "disk quota exceeded",
    "input/output error",
    "i/o timeout",
    "network is unreachable",
    "no route to host",
    "connection refused",
    "connection reset",
    "temporary failure in name resolution",
    "server misbehaving",
    "tls handshake timeout",
    "toomanyrequests",
    "context deadline exceeded",
)


def is_host_failure(words: str) -> bool:
    """Whether it is this host that failed, or its way to the registry: another one may do better."""
    lower = words.lower()
    return any(failure in lower for failure in _HOST_FAILURES)


def one_line(words: str, most: int = 1000) -> str:
    """What a program said, without line ends."""
    return " ".join(words.split())[:most]


@dataclass(frozen=True)
class ContainerState:
    """``docker inspect``'s State."""

    status: str = ""
    running: bool = False
    exit_code: int = 0
    error: str = ""
    out_of_memory: bool = False

    @property
    def ran(self) -> bool:
        """The job's program has been started."""
        return self.status not in ("created", "configured", "initialized") and not self.error


def parse_state(text: str) -> ContainerState | None:
    """The state from its JSON text; None when it is none."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    code = found.get("ExitCode")
    return ContainerState(
        status=str(found.get("Status", "")),
        running=found.get("Running") is True,
        exit_code=code if isinstance(code, int) else 0,
        error=str(found.get("Error") or ""),
        out_of_memory=found.get("OOMKilled") is True,
    )


def corrected(result: KeeperResult, state: ContainerState | None) -> KeeperResult:
    """The keeper's result by what the daemon knows: the keeper has only seen the client end.

    :param state: None where the daemon knows nothing of the container: it has died, or somebody has removed it. The
        client's status is not the job's then.
    """
    if result.how not in ("exited", "signaled"):
        return result
    if state is None:
        return replace(result, how="lost") if result.ended_by == "itself" else result
    if not state.ran:
        if result.ended_by != "itself":
            return result  # killed before the container ran
        detail = state.error or "the container did not start"
        return replace(result, how="failed", stage=CONTAINER_FAILED, detail=f"Error running docker job: {detail}")
    code, number = state.exit_code, state.exit_code - _BY_SIGNAL
    by_signal = 0 < number < _SIGNALS_END
    oom_kills = max(1, result.oom_kills) if state.out_of_memory else result.oom_kills
    return replace(
        result,
        how="signaled" if by_signal else "exited",
        code=number if by_signal else code,
        core=False,
        oom_kills=oom_kills,
    )


@dataclass(frozen=True)
class EngineInfo:
    """``docker info``, or ``podman info``."""

    podman: bool = False
    server: str = ""
    cgroup_driver: str = ""
    cgroup_version: str = ""
    rootless: bool = False
    #: What the client says when it cannot reach the daemon.
    errors: tuple[str, ...] = ()


def parse_info(text: str) -> EngineInfo | None:
    """What the daemon is, from ``info --format '{{json .}}'``; None when it is not understood."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return None
    if not isinstance(found, dict):
        return None
    host = found.get("host")
    if isinstance(host, dict):
        version = found.get("version")
        security = host.get("security")
        return EngineInfo(
            podman=True,
            server=str(version.get("Version", "")) if isinstance(version, dict) else "",
            cgroup_driver=str(host.get("cgroupManager", "")),
            cgroup_version=str(host.get("cgroupVersion", "")).removeprefix("v"),
            rootless=isinstance(security, dict) and security.get("rootless") is True,
        )
    options = found.get("SecurityOptions")
    errors = found.get("ServerErrors")
    return EngineInfo(
        server=str(found.get("ServerVersion") or ""),
        cgroup_driver=str(found.get("CgroupDriver") or ""),
        cgroup_version=str(found.get("CgroupVersion") or "1"),
        rootless=isinstance(options, list) and any("rootless" in str(option) for option in options),
        errors=tuple(map(str, errors)) if isinstance(errors, list) else (),
    )


def is_understood(version: str) -> str:
    """Empty when ``docker -v`` is a version of Docker or podman; else what is wrong with it."""
    line, *more = version.strip().splitlines() or [""]
    if "Jansens" in version:
        return "DOCKER names OpenBox's docker, a tray for windows: name Docker's program"
    if more or not 8 <= len(line) <= 1024:
        return f"DOCKER does not name Docker's program: it says {line[:200]!r} when asked for its version"
    if "20.10.4," in line:
        return "Docker 20.10.4 cannot run jobs: upgrade it"
    return ""


def host_ports(text: str, services: Iterable[tuple[str, int]]) -> dict[str, int]:
    """``<service>_HostPort`` by the ports of a running container (``.NetworkSettings.Ports`` as JSON)."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return {}
    ports: dict[str, int] = {}
    for key, bindings in (found if isinstance(found, dict) else {}).items():
        for binding in bindings or ():
            port = binding.get("HostPort", "") if isinstance(binding, dict) else ""
            if str(port).isdigit():
                ports.setdefault(str(key).partition("/")[0], int(port))
    return {f"{name}_HostPort": ports[str(port)] for name, port in services if str(port) in ports}
