"""The body of the request that creates a container, from the words of ``docker create``. Pure.

The words stay the one description of a job's container: where one of them is not known here (DOCKER_EXTRA_ARGUMENTS may
have any), Docker's program translates them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from slotwise.starter.runtimes.docker.launch import UserDirectory

#: The longest word that the kernel hands to a program, less what is added to it.
_MOST = (128 << 10) - 4096
#: Options with a value that come as they are: by their names, where they go, and whether there may be several.
_TEXTS = {
    "--workdir": ("WorkingDir", False),
    "-w": ("WorkingDir", False),
    "--user": ("User", False),
    "-u": ("User", False),
    "--hostname": ("Hostname", False),
    "-h": ("Hostname", False),
}
_HOST_TEXTS = {
    "--cgroup-parent": "CgroupParent",
    "--cpuset-cpus": "CpusetCpus",
    "--ipc": "IpcMode",
    "--userns": "UsernsMode",
    "--runtime": "Runtime",
}
_HOST_LISTS = {
    "--cap-add": "CapAdd",
    "--cap-drop": "CapDrop",
    "--group-add": "GroupAdd",
    "--add-host": "ExtraHosts",
    "--dns": "Dns",
}
_HOST_NUMBERS = {
    "--cpu-shares": "CpuShares",
    "--pids-limit": "PidsLimit",
    "--oom-score-adj": "OomScoreAdj",
}
_HOST_BYTES = {"--memory": "Memory", "-m": "Memory", "--memory-swap": "MemorySwap", "--shm-size": "ShmSize"}
_HOST_FLAGS = {"--init": "Init", "--read-only": "ReadonlyRootfs", "--privileged": "Privileged"}
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NO_NEW_PRIVILEGES = "no-new-privileges"


class _UnknownWordError(Exception):
    """Only Docker's program knows what this means."""


def create_body(words: Sequence[str], directory: UserDirectory | None = None, environment: Sequence[str] = ()) -> str:
    """The body as JSON, in which a line end stands for the path of ``directory``; empty where the words, or their
    number, are for Docker's program.

    :param words: the arguments of ``docker create``, with the word itself.
    :param environment: ``NAME=value`` of each variable, besides those that the words have.
    """
    reading = _Reading(environment)
    try:
        reading.read(words[1:])
    except _UnknownWordError:
        return ""
    body = reading.body(directory)
    return body if len(body.encode("utf-8", "surrogateescape")) < _MOST else ""


class _Reading:
    """What the words have said so far."""

    def __init__(self, environment: Sequence[str]) -> None:
        self._config: dict[str, object] = {"AttachStdout": True, "AttachStderr": True}
        self._host: dict[str, object] = {"RestartPolicy": {"Name": "no"}}
        self._labels: dict[str, str] = {}
        self._ports: dict[str, object] = {}
        self._lists: dict[str, list[object]] = {"Env": list(environment)} if environment else {}
        self._seen: set[str] = set()

    def read(self, words: Sequence[str]) -> None:
        """Read the options, the image and its command. :raises _UnknownWordError:"""
        left = list(words)
        while left and left[0].startswith("-"):
            name, equals, value = left.pop(0).partition("=")
            if name in _HOST_FLAGS or name in ("--interactive", "-i"):
                if equals:
                    raise _UnknownWordError
                self._flag(name)
                continue
            if not name.startswith("--") and equals:
                raise _UnknownWordError  # -e=A=b: whatever that is
            if not equals:
                if not left:
                    raise _UnknownWordError
                value = left.pop(0)
            self._option(name, value)
        if not left:
            raise _UnknownWordError
        self._config["Image"] = left[0]
        if len(left) > 1:
            self._config["Cmd"] = left[1:]

    def _flag(self, name: str) -> None:
        if name in _HOST_FLAGS:
            self._host[_HOST_FLAGS[name]] = True
        else:
            self._config |= {"AttachStdin": True, "OpenStdin": True, "StdinOnce": True}

    def _option(self, name: str, value: str) -> None:
        special: dict[str, Callable[[str], None]] = {
            "--name": lambda _: None,  # of the request, not of its body
            "--label": self._label,
            "--env": self._env,
            "-e": self._env,
            "--volume": self._volume,
            "-v": self._volume,
            "--device": self._device,
            "--network": self._network,
            "--net": self._network,
            "--log-driver": self._log_driver,
            "--security-opt": self._security,
            "--ulimit": self._ulimit,
            "--publish": self._port,
            "-p": self._port,
        }
        if name in special:
            special[name](value)
        elif name in _TEXTS:
            self._config[_TEXTS[name][0]] = value
        elif name == "--entrypoint" and value:
            self._config["Entrypoint"] = [value]
        elif name in _HOST_TEXTS:
            self._host[_HOST_TEXTS[name]] = value
        elif name in _HOST_LISTS:
            self._lists.setdefault(_HOST_LISTS[name], []).append(value)
        elif name in _HOST_NUMBERS and re.fullmatch(r"-?\d{1,18}", value):
            self._host[_HOST_NUMBERS[name]] = int(value)
        elif name in _HOST_BYTES and (found := re.fullmatch(r"(\d{1,12})([bkmg]?)", value)):
            self._host[_HOST_BYTES[name]] = int(found[1]) * _UNITS[found[2]]
        else:
            raise _UnknownWordError

    def _label(self, value: str) -> None:
        name, _, text = value.partition("=")
        self._labels[name] = text

    def _env(self, value: str) -> None:
        if "=" not in value:
            raise _UnknownWordError  # one of the program's own environment
        self._lists.setdefault("Env", []).append(value)

    def _volume(self, value: str) -> None:
        if not value.startswith("/") or value.count(":") not in (1, 2):
            raise _UnknownWordError
        self._lists.setdefault("Binds", []).append(value)

    def _device(self, value: str) -> None:
        if not value.startswith("/dev/") or ":" in value:
            raise _UnknownWordError
        self._lists.setdefault("Devices", []).append(
            {"PathOnHost": value, "PathInContainer": value, "CgroupPermissions": "rwm"}
        )

    def _network(self, value: str) -> None:
        if "network" in self._seen or "=" in value:
            raise _UnknownWordError  # several networks, or one with options
        self._seen.add("network")
        self._host["NetworkMode"] = value

    def _log_driver(self, value: str) -> None:
        self._host["LogConfig"] = {"Type": value, "Config": {}}

    def _security(self, value: str) -> None:
        if value != _NO_NEW_PRIVILEGES:
            raise _UnknownWordError  # it may name a file that the program reads
        self._lists.setdefault("SecurityOpt", []).append(value)

    def _ulimit(self, value: str) -> None:
        found = re.fullmatch(r"([a-z]+)=(-?\d{1,18}):(-?\d{1,18})", value)
        if found is None:
            raise _UnknownWordError
        self._lists.setdefault("Ulimits", []).append({"Name": found[1], "Soft": int(found[2]), "Hard": int(found[3])})

    def _port(self, value: str) -> None:
        if not value.isdigit():
            raise _UnknownWordError
        self._ports[f"{value}/tcp"] = [{"HostIp": "", "HostPort": ""}]

    def body(self, directory: UserDirectory | None) -> str:
        """What all of it makes."""
        config, host = dict(self._config), dict(self._host)
        for name, values in self._lists.items():
            (config if name == "Env" else host)[name] = values
        if self._labels:
            config["Labels"] = self._labels
        if self._ports:
            config["ExposedPorts"] = {port: {} for port in self._ports}
            host["PortBindings"] = self._ports
        text = _json(host)
        if directory is not None:
            text = f'{text[:-1]},"Mounts":[{_open_directory(directory[0])}]}}'
        return f'{_json(config)[:-1]},"HostConfig":{text}}}'


def _json(found: object) -> str:
    return json.dumps(found, separators=(",", ":"))


def _open_directory(target: str) -> str:
    """As :func:`launch.volume`. The line end stands for the path: no JSON text has one inside of a string."""
    options = '{"type":"none","o":"bind","device":"\n"}'
    driver = f'{{"Name":"local","Options":{options}}}'
    return f'{{"Type":"volume","Target":{_json(target)},"VolumeOptions":{{"NoCopy":true,"DriverConfig":{driver}}}}}'
