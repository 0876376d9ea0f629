"""What the daemon is asked at each start and end of a job: through its socket where that is known, else by Docker's
program. What is asked seldom (pulls, lists of images) always goes through the program, which knows logins and contexts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from slotwise.errors import HostError
from slotwise.starter.runtimes.docker import launch, state
from slotwise.starter.runtimes.docker.client import Client
from slotwise.starter.runtimes.docker.state import Traffic

_DEFAULT = "/var/run/docker.sock"
#: Variables with which the program does more than pass a container's description on, or asks somebody else.
_OF_PROGRAM = ("DOCKER_CONTEXT", "DOCKER_DEFAULT_PLATFORM", "DOCKER_CONTENT_TRUST")
_OK, _NO_CONTENT, _CREATED, _NOT_FOUND = 200, 204, 201, 404


class Daemon(Protocol):
    """The daemon."""

    async def architecture(self, image: str) -> str | None:
        """The architecture of an image; None: it is not here.

        :raises OSError: when the daemon cannot be asked.
        """
        ...

    async def tag(self, image: str, name: str) -> None:
        """Give an image another name. :raises HostError: when that fails."""
        ...

    async def state(self, container: str) -> state.ContainerState | None:
        """The state of a container; None: there is none.

        :raises HostError: when the daemon does not say.
        :raises OSError: when it cannot be asked.
        """
        ...

    async def ports(self, container: str) -> str:
        """The ports of a container as JSON; empty when they are not known."""
        ...

    async def traffic(self, container: str) -> Traffic | None:
        """What went over the networks of a running container; None when that is not known."""
        ...

    async def kill(self, container: str) -> None:
        """Kill what runs in a container."""
        ...

    async def remove(self, container: str) -> str:
        """Remove a container with its volumes; why it could not be removed, empty when it is gone."""
        ...


class ByProgram:
    """Asks by Docker's program, or podman's."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def architecture(self, image: str) -> str | None:
        """See :class:`Daemon`."""
        found = await self._client.call("image", "inspect", "--format", "{{.Architecture}}.", image)
        return found.output.strip().rstrip(".") if found.status == 0 else None

    async def tag(self, image: str, name: str) -> None:
        """See :class:`Daemon`."""
        await self._client.output("tag", image, name)

    async def state(self, container: str) -> state.ContainerState | None:
        """See :class:`Daemon`."""
        answer = await self._client.call("inspect", "--format", "{{json .State}}", container)
        if answer.status != 0:
            if "no such" in answer.errors.lower():
                return None
            raise HostError(state.one_line(answer.errors) or f"exit status {answer.status}")
        return state.parse_state(answer.output)

    async def ports(self, container: str) -> str:
        """See :class:`Daemon`."""
        return (await self._client.call("inspect", "--format", "{{json .NetworkSettings.Ports}}", container)).output

    async def traffic(self, container: str) -> Traffic | None:
        """See :class:`Daemon`."""
        with contextlib.suppress(OSError):
            answer = await self._client.call("stats", "--no-stream", "--format", "{{.NetIO}}", container)
            return state.parse_traffic(answer.output) if answer.status == 0 else None
        return None

    async def kill(self, container: str) -> None:
        """See :class:`Daemon`."""
        await self._client.call("kill", container)

    async def remove(self, container: str) -> str:
        """See :class:`Daemon`."""
        answer = await self._client.call("rm", "--force", "--volumes", container)
        gone = answer.status == 0 or "no such container" in answer.errors.lower()
        return "" if gone else state.one_line(answer.errors)


class BySocket:
    """Asks through the socket."""

    def __init__(self, socket: str, limit_s: float = launch.ANSWER_S) -> None:
        self.socket = socket
        self._limit_s = limit_s

    async def _ask(self, method: str, target: str) -> tuple[int, bytes]:
        """:raises OSError: when the daemon cannot be asked, or does not answer in time."""
        try:
            async with asyncio.timeout(self._limit_s):
                reader, writer = await asyncio.open_unix_connection(self.socket)
                try:
                    writer.write(launch.request(method, target))
                    return launch.answer(await reader.read())
                finally:
                    writer.close()
        except TimeoutError:
            raise OSError(f"the Docker daemon at {self.socket} gives no answer in {self._limit_s:g} s") from None

    async def engine(self) -> str:
        """What answers there; empty when nothing of the kind does."""
        with contextlib.suppress(OSError, HostError):
            found = await self._found("/version")
            parts = found.get("Components") if found is not None else None
            first = parts[0] if isinstance(parts, list) and parts else {}
            return str(first.get("Name") or "Engine") if isinstance(first, dict) else "Engine"
        return ""

    async def _found(self, target: str) -> Mapping[str, object] | None:
        """What the daemon says of a thing; None: there is none.

        :raises HostError: when it does not say.
        :raises OSError: when it cannot be asked.
        """
        status, body = await self._ask("GET", target)
        if status == _NOT_FOUND:
            return None
        found = state.json_object(body)
        if status != _OK or found is None:
            raise HostError(state.one_line(launch.message(body)) or f"the Docker daemon answers with status {status}")
        return found

    async def architecture(self, image: str) -> str | None:
        """See :class:`Daemon`."""
        try:
            found = await self._found(f"/images/{quote(image, safe='/:@')}/json")
        except HostError as error:
            raise OSError(str(error)) from None
        return str(found.get("Architecture") or "") if found is not None else None

    async def tag(self, image: str, name: str) -> None:
        """See :class:`Daemon`."""
        repository, _, tag = name.rpartition(":")
        target = f"/images/{quote(image, safe='/:@')}/tag?repo={quote(repository, safe='')}&tag={quote(tag, safe='')}"
        try:
            status, body = await self._ask("POST", target)
        except OSError as error:
            raise HostError(str(error)) from None
        if status != _CREATED:
            raise HostError(f"docker tag: {state.one_line(launch.message(body))}")

    async def state(self, container: str) -> state.ContainerState | None:
        """See :class:`Daemon`."""
        found = await self._found(f"/containers/{container}/json")
        return state.parse_state(json.dumps(found.get("State"))) if found is not None else None

    async def ports(self, container: str) -> str:
        """See :class:`Daemon`."""
        with contextlib.suppress(HostError, OSError):
            found = await self._found(f"/containers/{container}/json")
            network = found.get("NetworkSettings") if found is not None else None
            return json.dumps(network.get("Ports")) if isinstance(network, dict) else ""
        return ""

    async def traffic(self, container: str) -> Traffic | None:
        """See :class:`Daemon`."""
        with contextlib.suppress(HostError, OSError):
            # Only once: else the daemon waits a second for another sample, of which it would make percentages.
            found = await self._found(f"/containers/{container}/stats?stream=false&one-shot=true")
            return state.counted_traffic(found) if found is not None else None
        return None

    async def kill(self, container: str) -> None:
        """See :class:`Daemon`."""
        with contextlib.suppress(OSError):
            await self._ask("POST", f"/containers/{container}/kill")

    async def remove(self, container: str) -> str:
        """See :class:`Daemon`."""
        try:
            status, body = await self._ask("DELETE", f"/containers/{container}?force=1&v=1")
        except OSError as error:
            return str(error)
        return "" if status in (_NO_CONTENT, _OK, _NOT_FOUND) else state.one_line(launch.message(body))


def socket_of(client: Client) -> str:
    """The socket of the daemon that Docker's program asks, if a job's start loses nothing without it; empty otherwise.

    A program that a site wrote, or podman, is always run: what it does is its own.
    """
    path, env = client.path(), client.env
    if path is None or len(client.words) != 1 or any(env.get(name) for name in _OF_PROGRAM):
        return ""
    host = env.get("DOCKER_HOST", "")
    if host and not host.startswith("unix:///"):
        return ""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return ""
    except OSError:
        return ""
    place = env.get("DOCKER_CONFIG") or f"{env.get('HOME', '')}/.docker"
    settings: object = {}
    try:
        settings = json.loads(Path(place, "config.json").read_text())
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return ""
    # Proxies get into the environment of containers; a context is another daemon.
    if not isinstance(settings, dict) or settings.get("proxies"):
        return ""
    if not host and settings.get("currentContext") not in (None, "", "default"):
        return ""
    socket = host.removeprefix("unix://") or _DEFAULT
    return socket if os.path.isabs(socket) else ""  # noqa: PTH117
