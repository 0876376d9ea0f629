"""Makes a pool of three hosts from a package as the README says: ``python packaging/check_hosts.py PACKAGE`` (root).

The hosts are copies of the chroot that ``packaging/check.py`` leaves, each with its own network, process ids and name,
on one wire. Seen to work: the package is installed on each, one host joins by fingerprint and code, one by a token, an
ordinary user's job runs over TLS on another host, hosts are listed, drained and upgraded under a running job, a removed
host is refused, and each host is as it was in the end.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHROOT = ROOT / "build" / "bookworm"
_LIMIT_S = 180
#: The job that an upgrade finds running.
_LONG = "executable = b.sh\nlog = long.log\nrequest_memory = 64M\nqueue\n"
#: What a host's first process does: the wire is put into its network by the one that starts it.
_HOST = """
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount -t tmpfs tmpfs {root}/dev/shm
mount -t tmpfs tmpfs {root}/run
mount --rbind /sys {root}/sys
hostname {name}.example
ip link set lo up
exec chroot {root} /bin/bash -c 'echo up; while :; do sleep 1; done'
"""


class Host:
    """One host: a copy of the chroot in namespaces of its own."""

    def __init__(self, name: str, number: int, directory: Path) -> None:
        self.name = name
        self._number = number
        self._root = directory / name / "root"
        self._process: subprocess.Popen[str] | None = None

    def start(self, package: Path) -> None:
        """Bring the host up with its network, and copy the package onto it."""
        parts = {part: self._root.parent / part for part in ("root", "upper", "work")}
        for part in parts.values():
            part.mkdir(parents=True)
        options = f"lowerdir={CHROOT},upperdir={parts['upper']},workdir={parts['work']}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(self._root)], check=True)
        (self._root / "etc/hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"10.77.0.{n} {name}.example {name}\n" for name, n in HOSTS.items())
        )
        (self._root / "etc/hostname").write_text(f"{self.name}.example\n")
        (self._root / "slotwise.deb").write_bytes(package.read_bytes())
        apart = ["unshare", "--mount", "--uts", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
        script = _HOST.format(root=self._root, name=self.name)
        words = [*apart, "bash", "-e", "-c", script]
        self._process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "up\n":
            sys.exit(f"{self.name} does not come up")
        outer = f"swp{self._number}"
        for line in (
            f"ip link add {outer} type veth peer name eth0 netns {self._pid()}",
            f"ip link set {outer} master swp up",
            f"nsenter -t {self._pid()} -n ip addr add 10.77.0.{self._number}/24 dev eth0",
            f"nsenter -t {self._pid()} -n ip link set eth0 up",
        ):
            subprocess.run(shlex.split(line), check=True)

    def stop(self) -> None:
        """End all that runs on the host."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def run(self, command: str, *, user: str = "", typed: str = "", check: bool = True) -> str:
        """What a command prints, both streams.

        :param user: whose it is; root's unless given.
        :param typed: what somebody types at a terminal of the host; without it there is none.
        """
        done = subprocess.run(
            self._words(command, user, bool(typed)), input=typed, capture_output=True, text=True, timeout=2 * _LIMIT_S
        )
        said = done.stdout + done.stderr
        if check and done.returncode:
            sys.exit(f"FAILED: {self.name}: {command}\n{said}\n{self._logs()}")
        return said

    def begin(self, command: str, typed: str, output: Path) -> subprocess.Popen[str]:
        """Start a command at a terminal, with what is typed, and let it run."""
        with output.open("w") as stream:
            begun = subprocess.Popen(
                self._words(command, "", True), stdin=subprocess.PIPE, stdout=stream, stderr=stream, text=True
            )
        assert begun.stdin is not None
        begun.stdin.write(typed)
        begun.stdin.flush()
        return begun

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait for what a step has to lead to, and say that it was seen."""
        ends = time.monotonic() + _LIMIT_S
        while not holds():
            if time.monotonic() > ends:
                sys.exit(f"FAILED: {what}\n{self._logs()}")
            time.sleep(0.2)
        seen(what, True)

    def file(self, path: str) -> Path:
        """A file of the host, by its path there."""
        return self._root / path.lstrip("/")

    def _words(self, command: str, user: str, terminal: bool) -> list[str]:
        inside = ["nsenter", "-t", str(self._pid()), "-m", "-u", "-i", "-n", "-p", "-r", "-w"]
        who = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] if user else []
        home = f"/home/{user}" if user else "/root"
        env = ["env", "-i", f"HOME={home}", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]  # fmt: skip
        shell = f"cd {home} && {command}"
        words = ["script", "-qec", shell, "/dev/null"] if terminal else ["bash", "-c", shell]
        return [*inside, *env, *who, *words]

    def _pid(self) -> int:
        """The host's first process; that of unshare is its parent."""
        assert self._process is not None
        return int(Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0])

    def _logs(self) -> str:
        logs = sorted(self._root.glob("var/lib/slotwise/log/*Log"))
        return "".join(f"== {path.name}\n{''.join(path.open(errors='replace').readlines()[-15:])}" for path in logs)


#: The hosts, and the last number of each one's address.
HOSTS = {"cm": 2, "ap": 3, "ep": 4}


def seen(what: str, holds: object) -> None:
    """A step that has to be seen."""
    sys.stdout.write(f"{'ok' if holds else 'FAILED'}: {what}\n")
    sys.stdout.flush()
    if not holds:
        sys.exit(1)


class Wire:
    """What the third host sends and gets, from now on."""

    def __init__(self) -> None:
        self._taken = bytearray()
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.bind((f"swp{HOSTS['ep']}", 0))
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with contextlib.suppress(OSError):  # the host is gone, and its wire with it
            while True:
                self._taken += self._socket.recv(65536)

    def shows(self, text: bytes) -> bool:
        """Whether the text was there in clear."""
        return text in bytes(self._taken)


@contextlib.contextmanager
def wired(package: Path) -> Iterator[dict[str, Host]]:
    """The hosts, up and on one wire, in namespaces that end with this process."""
    subprocess.run(shlex.split("ip link add swp type bridge forward_delay 0"), check=True)
    subprocess.run(shlex.split("ip link set swp up"), check=True)
    with tempfile.TemporaryDirectory(prefix="sw-", dir=ROOT / "build", ignore_cleanup_errors=True) as directory:
        hosts = {name: Host(name, number, Path(directory)) for name, number in HOSTS.items()}
        try:
            for host in hosts.values():
                host.start(package)
            yield hosts
        finally:
            for host in hosts.values():
                host.stop()


def readme_job() -> str:
    """The description that the README submits."""
    found = re.search(
        r"cat > hello.sub <<'END'\n(.*?)^END$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def installed(hosts: dict[str, Host]) -> None:
    """Install the package on each host, as the README says it."""
    for host in hosts.values():
        host.run("apt-get install -y --no-install-recommends /slotwise.deb")
        host.run("userdel -r alice; useradd --create-home alice && chmod 755 /home/alice")
    seen("the package is installed on each host", True)


def joined(cm: Host, ap: Host, ep: Host) -> None:
    """The README's commands."""
    fingerprint = re.search(r"SHA256:\S+", cm.run("slotwise node install --role cm"))
    seen("the first host makes the pool and prints its fingerprint", fingerprint)
    assert fingerprint is not None
    output = ap.file("tmp/install.out")
    asking = ap.begin("slotwise node install --role ap --join cm.example", "yes\n", output)
    code: list[str] = []
    ap.until(
        "the second shows the fingerprint, and a code",
        lambda: (
            fingerprint[0] in (said := output.read_text())
            and code.extend(re.findall(r"slotwise node approve (\S+)", said)) is None
            and code
        ),
    )
    wrong = cm.run("slotwise node approve AAAA-BBBB-CCCC", check=False)
    seen("another code is refused", "AAAA-BBBB-CCCC" in wrong and "admitted" not in wrong)
    seen("the code is approved", "ap.example is admitted" in cm.run(f"slotwise node approve {code[0]}"))
    asking.communicate(timeout=_LIMIT_S)
    seen("the second is in the pool", "ap.example is in the pool" in output.read_text() and not asking.returncode)
    cm.run("slotwise node token --role ep --uses 8 --lifetime 1h --file rack.join")
    shutil.copy2(cm.file("root/rack.join"), ep.file("root/rack.join"))
    ep.run("slotwise node install --role ep --token-file rack.join")
    cm.until(
        "all three are in the list",
        lambda: all(
            re.search(rf"^{name}.example +{name} +up ", cm.run("slotwise node list"), re.MULTILINE) for name in HOSTS
        ),
    )


def ran(cm: Host, ap: Host, ep: Host) -> None:
    """Jobs of an ordinary user, while hosts are drained and upgraded."""
    ap.file("home/alice/hello.sub").write_text(readme_job())
    wire = Wire()
    ap.run("slotwise submit hello.sub && slotwise wait -wait 120 hello.log", user="alice")
    seen("jobs of an ordinary user have run", "hello from job 9" in ap.file("home/alice/hello.9.out").read_text())
    seen("on the third host", "executing on host: <ep.example" in ap.file("home/alice/hello.log").read_text())
    seen("nothing of it was to be read on the wire", wire.shows(b"\x16\x03") and not wire.shows(b"hello from job"))

    program = ap.file("home/alice/b.sh")
    program.write_text("#!/bin/sh\nuntil [ -e /home/alice/go ]; do sleep 1; done\n")
    program.chmod(0o755)
    ap.file("home/alice/b.sub").write_text(_LONG)
    ap.run("slotwise submit b.sub", user="alice")
    log = ap.file("home/alice/long.log")
    ap.until("a long job runs", lambda: "Job executing" in log.read_text())
    for host in (cm, ap, ep):
        before = host.run("slotwise up -json")
        host.run("slotwise node upgrade --package /slotwise.deb")
        seen(f"{host.name} is upgraded: its daemons are new ones", host.run("slotwise up -json") != before)
    ap.until("all are back", lambda: cm.run("slotwise node list").count(" up ") == len(HOSTS))
    ep.file("home/alice/go").touch()
    ap.run("slotwise wait -wait 120 long.log", user="alice")
    seen("the long job ran once", log.read_text().count("Job executing") == 1 and "return value 0" in log.read_text())
    cm.run("slotwise node drain ep.example")
    cm.until("the third host drains", lambda: re.search(r"^ep.example.* draining ", cm.run("slotwise node list"), re.M))
    cm.run("slotwise node drain --cancel ep.example")
    cm.until("the third host is up again", lambda: cm.run("slotwise node list").count(" up ") == len(HOSTS))


def left(cm: Host, ap: Host, ep: Host) -> None:
    """Hosts leave the pool, one of them against its will."""
    cm.run("slotwise node remove ep.example")
    seen("a removed host is not in the list", "ep.example" not in cm.run("slotwise node list"))
    refused = ep.run("slotwise status -any", check=False)
    seen("its token is refused", "has been removed from the pool" in refused)
    ap.until("its slots are gone", lambda: "ep.example" not in ap.run("slotwise status -af Name", check=False))
    for host in (ep, ap, cm):
        host.run("slotwise node uninstall")
        seen(
            f"{host.name} is as it was",
            not host.file("etc/slotwise/config.d/10-node.conf").exists()
            and not host.file("var/lib/slotwise/tls").exists(),
        )
        host.run("dpkg -P slotwise")
        seen("and after the package nothing is left", not host.file("var/lib/slotwise").exists())


def main() -> None:
    """Take the steps, in a network and a list of mounts of its own."""
    if len(sys.argv) == 2:
        apart = ["unshare", "--mount", "--net", "--propagation", "private"]
        sys.exit(subprocess.run([*apart, sys.executable, __file__, *sys.argv[1:], "--inside"], timeout=1800).returncode)
    package = Path(sys.argv[1]).resolve()
    with wired(package) as hosts:
        installed(hosts)
        for steps in (joined, ran, left):
            steps(**hosts)
    sys.stdout.write("every step was seen\n")


if __name__ == "__main__":
    main()
