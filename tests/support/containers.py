"""Real container engines for tests: a Docker daemon that leaves the host's network alone, podman, and a small image."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.waiting import LIMIT_S, block_until

IMAGE = "slotwise/busybox:1"
_TOOLS = "sh sleep cat echo env id ls true touch head dd mkdir kill tail pwd ps wc hostname stat tr yes grep nc".split()  # noqa: SIM905
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class EngineError(AssertionError):
    """An engine that does not start, or does not do as it is told; the text has its own words."""


@dataclass(frozen=True)
class Engine:
    """A container engine: the value of DOCKER, and the environment that its program wants."""

    program: str
    env: dict[str, str] = field(default_factory=dict)
    #: A process in the network namespace of the daemon, where its containers' ports are; 0: the host's.
    network_of: int = 0

    def receive(self, port: int) -> bytes:
        """What is heard at a port of the daemon's host."""
        script = (
            "import socket, sys\n"
            f"sys.stdout.write(socket.create_connection(('127.0.0.1', {port}), 30).makefile().read())"
        )
        place = ["nsenter", f"--net=/proc/{self.network_of}/ns/net"] if self.network_of else []
        return subprocess.run([*place, sys.executable, "-c", script], capture_output=True, check=False).stdout

    def call(self, *words: str, given: bytes = b"", check: bool = True) -> str:
        """What the program prints."""
        done = subprocess.run(
            [*self.program.split(), *words],
            input=given,
            capture_output=True,
            env={**os.environ, **self.env},
            check=False,
        )
        if check and done.returncode:
            raise EngineError(f"{Path(self.program.split()[0]).name} {words[0]}: {done.stderr.decode().strip()}")
        return done.stdout.decode()

    def containers(self) -> list[str]:
        """The names of all containers of jobs."""
        return self.call("ps", "--all", "--filter", "label=slotwise.run", "--format", "{{.Names}}").split()

    def images(self) -> set[str]:
        """All names of images."""
        return set(self.call("images", "--format", "{{.Repository}}:{{.Tag}}").split())


def _busybox() -> str:
    """A busybox that needs no libraries; empty: there is none."""
    found = shutil.which("busybox") or ""
    return "" if found and subprocess.run(["ldd", found], capture_output=True, check=False).returncode == 0 else found


def no_busybox() -> str:
    """Empty where the image can be made; else why not."""
    return "" if _busybox() else "needs a statically linked busybox"


def busybox_tree(**files: bytes) -> bytes:
    """The file tree of a small image as a tar archive, with ``files`` at its top."""
    found = _busybox()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in ("bin", "tmp", "etc"):
            place = tarfile.TarInfo(name)
            place.type, place.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(place)
        tar.add(found, "bin/busybox")
        for tool in _TOOLS:
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name, data in files.items():
            place = tarfile.TarInfo(name)
            place.size = len(data)
            tar.addfile(place, io.BytesIO(data))
    return file.getvalue()


@contextlib.contextmanager
def docker_daemon(*, bridge: bool = False) -> Iterator[Engine]:
    """A Docker daemon of its own with the image in it.

    :param bridge: containers have a network, in a network namespace that only they and the daemon are in.
    """
    tree = busybox_tree()
    top = Path(tempfile.mkdtemp(prefix="sw-docker-", dir="/var/tmp"))
    socket = f"unix://{top}/d.sock"
    words = ["dockerd", "--ip-forward=false"] if bridge else ["dockerd", "--bridge=none"]
    own_network = ["unshare", "--net", "--", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"] if bridge else []
    words += ["--iptables=false", "--ip6tables=false", "--data-root", f"{top}/data"]
    words += ["--exec-root", f"{top}/exec", "-H", socket, "-p", f"{top}/pid"]
    with open(top / "log", "wb") as log:
        daemon = subprocess.Popen(
            [*own_network, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PATH": _PATH}
        )
    program = shutil.which("docker", path="/usr/bin") or shutil.which("docker", path=_PATH) or ""
    engine = Engine(program, {"DOCKER_HOST": socket}, network_of=daemon.pid if bridge else 0)
    try:

        def answers() -> bool:
            if daemon.poll() is not None:
                raise EngineError(f"dockerd does not run here: {(top / 'log').read_text().strip()[-500:]}")
            info = ("info", "--format", "{{json .}}")
            return (top / "d.sock").exists() and "ServerVersion" in engine.call(*info, check=False)

        block_until(answers, "dockerd answers", told=lambda: (top / "log").read_text()[-500:])
        engine.call("import", "-", IMAGE, given=tree)
        yield engine
    finally:
        if daemon.poll() is None:
            for name in engine.call("ps", "--all", "--quiet", check=False).split():
                engine.call("rm", "--force", name, check=False)
            daemon.terminate()
            daemon.wait(LIMIT_S)
        for place in (top / "exec/netns/default", top / "data/overlay2"):
            subprocess.run(["umount", str(place)], capture_output=True, check=False)
        shutil.rmtree(top, ignore_errors=True)


@contextlib.contextmanager
def podman() -> Iterator[Engine]:
    """Podman with storage of its own and the image in it."""
    tree = busybox_tree()
    top = Path(tempfile.mkdtemp(prefix="sw-podman-", dir="/var/tmp"))
    (top / "containers.conf").write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\nnetns = "none"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    )
    words = f"{shutil.which('podman', path=_PATH)} --root {top}/root --runroot {top}/run --storage-driver vfs"
    engine = Engine(words, {"CONTAINERS_CONF": str(top / "containers.conf")})
    try:
        engine.call("import", "-", f"docker.io/{IMAGE}", given=tree)
        yield engine
    finally:
        engine.call("rm", "--all", "--force", check=False)
        subprocess.run(["umount", f"{top}/root/vfs", f"{top}/root"], capture_output=True, check=False)
        shutil.rmtree(top, ignore_errors=True)


@contextlib.contextmanager
def podman_socket(engine: Engine) -> Iterator[str]:
    """The socket of a service of podman's that answers as Docker's daemon does."""
    with tempfile.TemporaryDirectory(prefix="sw-podman-", dir="/var/tmp") as top:
        socket = Path(top, "p.sock")
        words = [*engine.program.split(), "system", "service", "--time", "0", f"unix://{socket}"]
        service = subprocess.Popen(words, stdin=subprocess.DEVNULL, env={**os.environ, **engine.env})
        try:

            def listens() -> bool:
                assert service.poll() is None, "podman's service has ended"
                return socket.exists()

            block_until(listens, "podman's service listens")
            yield str(socket)
        finally:
            service.terminate()
            service.wait(LIMIT_S)
