"""What the daemon says of a container that has ended, and of itself. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from slotwise.classad.values import Value
from slotwise.execution.exit_status import CONTAINER_FAILED
from slotwise.execution.keeper_spec import KeeperResult

_SIGNALS_END = 65
#: Exit codes of a shell for a signal begin above this.
_BY_SIGNAL = 128
_AMOUNTS = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{0,15})?) ?([kMGTP]?i?B) / ([0-9]{1,15}(?:\.[0-9]{0,15})?) ?([kMGTP]?i?B)"
)
_PORT = re.compile("[0-9]{1,5}")


def json_object(text: str | bytes) -> dict[str, object] | None:
    """The JSON object that a text is; None when it is none. What an image says of itself is in it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def one_line(words: str, most: int = 1000) -> str:
    """What a program said, without line ends."""
    return " ".join(words.split())[:most]


class ContainerState(Struct, frozen=True):
    """``docker inspect``'s State."""

    status: str = ""
    running: bool = False
    exit_code: int = 0
    error: str = ""
    #: Its first process as the daemon's host has it; 0: none.
    pid: int = 0
    out_of_memory: bool = False

    @property
    def ran(self) -> bool:
        """The job's program has been started."""
        return self.status not in ("created", "configured", "initialized") and not self.error


def parse_state(text: str) -> ContainerState | None:
    """The state from its JSON text; None when the text is not a state."""
    found = json_object(text)
    if found is None:
        return None
    code = found.get("ExitCode")
    return ContainerState(
        status=str(found.get("Status", "")),
        running=found.get("Running") is True,
        exit_code=code if isinstance(code, int) else 0,
        error=str(found.get("Error") or ""),
        pid=pid if isinstance(pid := found.get("Pid"), int) else 0,
        out_of_memory=found.get("OOMKilled") is True,
    )


def corrected(result: KeeperResult, state: ContainerState | None, why: str = "") -> KeeperResult:
    """The keeper's result by what the daemon knows: the keeper has only seen the client end.

    :param state: None where the daemon knows nothing of the container: it has died, or somebody has removed it. The
        client's status is not the job's then.
    :param why: why the daemon says nothing.
    """
    if result.how not in ("exited", "signaled"):
        return result
    if state is None:
        if result.ended_by != "itself":
            return result
        return replace(
            result, how="lost", detail=f"The job's container is lost: {why or 'Docker has none of this name'}"
        )
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


class EngineInfo(Struct, frozen=True):
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
    found = json_object(text)
    if found is None:
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


def client_problem(version: str) -> str:
    """What is wrong with the program that DOCKER names, by what ``docker -v`` prints; empty for Docker and podman."""
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
    ports: dict[str, int] = {}
    for key, bindings in (json_object(text) or {}).items():
        for binding in bindings if isinstance(bindings, list) else ():
            port = binding.get("HostPort", "") if isinstance(binding, dict) else ""
            if _PORT.fullmatch(str(port)):
                ports.setdefault(str(key).partition("/")[0], int(port))
    return {f"{name}_HostPort": ports[str(port)] for name, port in services if str(port) in ports}


class Traffic(Struct, frozen=True):
    """Bytes that a container has received and sent over its own networks."""

    received: float = 0.0
    sent: float = 0.0


def counted_traffic(stats: Mapping[str, object]) -> Traffic:
    """The traffic of all networks from the daemon's statistics of a container; none of its own: nothing."""
    networks = stats.get("networks")
    found = list(networks.values()) if isinstance(networks, dict) else []
    received, sent = (
        sum(
            count
            for network in found
            if isinstance(network, dict) and isinstance(count := network.get(name), int) and count > 0
        )
        for name in ("rx_bytes", "tx_bytes")
    )
    return Traffic(received, sent)


def parse_traffic(text: str) -> Traffic | None:
    """The traffic from ``stats --format '{{.NetIO}}'``: ``1.2kB / 656B``, in decimal units; None when it is none."""
    amounts = _AMOUNTS.fullmatch(text.strip())
    if amounts is None:
        return None
    received, sent = (
        float(amounts[number]) * 1000.0 ** "BKMGTP".index(amounts[number + 1].upper()[0]) for number in (1, 3)
    )
    return Traffic(received, sent)


def network_attributes(traffic: Traffic) -> dict[str, Value]:
    """The job's attributes, in megabytes of 1,000,000 bytes as in HTCondor."""
    return {"NetworkInputMb": traffic.received / 1e6, "NetworkOutputMb": traffic.sent / 1e6}
