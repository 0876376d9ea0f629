"""What this host lets tests do. A probe tries the very thing, with none of the product's code, and answers with nothing
or with why it cannot be had, in the host's own words where it says any; it is asked once in a run.

A test names what it needs by :func:`needs`; fixtures and blocks that need something ask by :func:`need`. Whoever lacks
it is skipped by name with that reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import platform
import pwd
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import containers, images, unkillable, vm_guest
from tests.support.open_installation import interpreter, opened
from tests.support.registry import Registry
from tests.support.waiting import LIMIT_S

#: Empty: the host has it; otherwise why not.
Probe = Callable[[], str]
#: Where programs of hosts lie; those for administrators are on few users' PATH.
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: The account of jobs whose starter is root's.
_NOBODY = "65534"


def needs(*probes: Probe) -> pytest.MarkDecorator:
    """The test needs all of these of the host; they are asked when it is its turn, in this order."""
    return pytest.mark.needs.with_args(*probes)


def need(*probes: Probe) -> None:
    """Skip the test, or those of the fixture, unless the host has all of these."""
    for probe in probes:
        if reason := probe():
            pytest.skip(reason)


def root() -> str:
    """The rights of root."""
    return "" if os.geteuid() == 0 else "needs root"


def programs(*names: str) -> Probe:
    """Programs of these names on PATH."""
    return lambda: _lacks(names, os.environ.get("PATH", os.defpath))


def host_programs(*names: str) -> Probe:
    """Programs of these names, on PATH or where those of administrators are."""
    return lambda: _lacks(names, _wide_path())


def _lacks(names: tuple[str, ...], path: str) -> str:
    missing = [name for name in names if shutil.which(name, path=path) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def _wide_path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_PATH}"


def _refusal(*words: str, env: dict[str, str] | None = None) -> str:
    """Empty when the command succeeds; else the last line of what it said."""
    environment = {**os.environ, "PATH": _wide_path(), "LC_ALL": "C", **(env or {})}
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    except subprocess.TimeoutExpired as error:
        return f"{words[0]}: no answer in {error.timeout:.0f} s"
    if done.returncode == 0:
        return ""
    said = [line.strip() for line in _ANSI.sub("", done.stderr or done.stdout).splitlines() if line.strip()]
    return said[-1] if said else f"{words[0]} ends with status {done.returncode}"


# --------------------------------------------------------------------------------------------- accounts and programs


def account(name: str) -> Probe:
    """An account of this name."""

    def probe() -> str:
        try:
            pwd.getpwnam(name)
        except KeyError:
            return f"needs an account {name}"
        return ""

    return probe


def accounts() -> str:
    """Accounts that can be made and removed, and whose rights can be had."""
    return root() or programs("useradd", "userdel", "setpriv")()


@functools.cache
def open_installation() -> str:
    """This installation, reached by other accounts; where it lies in a closed directory, in a mount namespace."""
    if opened() is not None:
        return ""
    refused = _refusal("unshare", "--mount", "true")
    return f"the installation is closed to other accounts, and no mount namespace can be made: {refused}"


def open_python() -> str:
    """An interpreter that every account may start."""
    return "" if interpreter() else "needs a Python interpreter that every account may start"


def launcher() -> str:
    """An installed package: `slotwise` beside the interpreter."""
    there = Path(sys.executable).with_name("slotwise").exists()
    return "" if there else "needs the launcher beside the interpreter (an installed package)"


@functools.cache
def own_name() -> str:
    """A name service that knows this host."""
    name = socket.getfqdn()
    try:
        return "" if socket.getaddrinfo(name, 0) else f"needs an address of {name}"
    except OSError as error:
        return f"needs a name service that knows this host: {name}: {error.strerror}"


# ----------------------------------------------------------------------------------------------------- control groups


def cgroup(controller: str, version: int = 0) -> Probe:
    """A control group that can be made, joined and left again with this controller; ``version`` 0: either, 2 with an
    empty controller: what needs none."""

    def probe() -> str:
        refused = [_cgroup_2(controller)] if version in (0, 2) else []
        refused += [_cgroup_1(controller)] if version in (0, 1) else []
        return "" if "" in refused else f"needs a cgroup with control of {controller}: {'; '.join(refused)}"

    return probe


def any_cgroup() -> str:
    """A control group that jobs can be in: with any controller of version 1, or memory and pids of version 2."""
    refused = [cgroup(name, 1)() for name in ("memory", "cpu", "pids", "freezer")]
    refused.append(cgroup("memory", 2)() or cgroup("pids", 2)())
    return "" if "" in refused else refused[-1]


def _hierarchies() -> Iterator[tuple[str, str]]:
    """Mount points of control groups, by controller; ``""``: version 2."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup2":
            yield "", place
        elif kind == "cgroup":
            yield from ((name, place) for name in options.split(","))


@functools.cache
def _cgroup_1(controller: str) -> str:
    mount = dict(_hierarchies()).get(controller) if controller else None
    if mount is None:
        return f"version 1: no hierarchy has {controller}"
    rules = {"devices.deny": "c 1:7 rwm"} if controller == "devices" else {}
    if controller == "cpuset":
        rules = {name: Path(mount, name).read_text() for name in ("cpuset.cpus", "cpuset.mems")}
    return _joined(Path(mount), rules)


@functools.cache
def _cgroup_2(controller: str) -> str:
    mount = dict(_hierarchies()).get("")
    if mount is None:
        return "version 2: no hierarchy is mounted"
    try:
        if controller and controller != "freezer":  # which every group has
            if controller not in Path(mount, "cgroup.controllers").read_text().split():
                return f"version 2: {mount} has no controller {controller}"
            # Busy: with processes in it, a group that is no root hands nothing down until they have been moved.
            with _allowing(errno.EBUSY):
                Path(mount, "cgroup.subtree_control").write_text(f"+{controller}")
    except OSError as error:
        return f"version 2: {mount}: {error.strerror}"
    return _joined(Path(mount), {})


@contextlib.contextmanager
def _allowing(number: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != number:
            raise


def _joined(mount: Path, rules: dict[str, str]) -> str:
    """Make a group there with these texts in its files, and have a process join it; empty, or why not."""
    group = mount / f"slotwise-host-{os.getpid()}"
    sleeper: subprocess.Popen[bytes] | None = None
    try:
        group.mkdir()
        for name, text in rules.items():
            (group / name).write_text(text)
        sleeper = subprocess.Popen(["sleep", "600"])
        (group / "cgroup.procs").write_text(str(sleeper.pid))
    except OSError as error:
        return f"{error.filename or group}: {error.strerror}"
    finally:
        if sleeper is not None:
            sleeper.kill()
            sleeper.wait()
        with contextlib.suppress(OSError):
            group.rmdir()
    return ""


#: Numbers of the system call bpf; most machines have that of the common table.
_BPF = {"x86_64": 321, "ppc64le": 361, "s390x": 351}.get(platform.machine(), 280)
_LIBC = ctypes.CDLL(None, use_errno=True)


@functools.cache
def device_programs() -> str:
    """Programs in the kernel that decide on devices of control groups of version 2."""
    if missing := cgroup("", 2)():
        return missing
    # r0 = 1; exit. Loaded (5) as a program for devices (15), and put (8) at a group as one (6).
    code = ctypes.create_string_buffer(bytes.fromhex("b700000001000000 9500000000000000"))
    licence = ctypes.create_string_buffer(b"GPL")
    loading = struct.pack("=IIQQ", 15, 2, ctypes.addressof(code), ctypes.addressof(licence)).ljust(64, b"\0")
    group = Path(dict(_hierarchies())[""], f"slotwise-host-{os.getpid()}")
    with contextlib.ExitStack() as undo:
        try:
            group.mkdir()
            undo.callback(group.rmdir)
            program = _bpf(5, loading)
            undo.callback(os.close, program)
            place = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
            undo.callback(os.close, place)
            _bpf(8, struct.pack("=IIII", place, program, 6, 0).ljust(64, b"\0"))
        except OSError as error:
            return f"needs a kernel with programs for devices of cgroups: {error.strerror}"
    return ""


def _bpf(command: int, attributes: bytes) -> int:
    result = int(_LIBC.syscall(_BPF, command, attributes, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


# -------------------------------------------------------------------------------------------------------- file systems


@functools.cache
def loop_mounts() -> str:
    """File systems in files."""
    if missing := root() or programs("mkfs.ext4", "losetup", "mount", "umount")():
        return missing
    with _file_system() as (refused, _):
        return f"needs loop devices: {refused}" if refused else ""


@contextlib.contextmanager
def _file_system(*features: str) -> Iterator[tuple[str, Path]]:
    """A small ext4 in a file, mounted; why it cannot be, and where."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp", ignore_cleanup_errors=True) as directory:
        image, at = Path(directory, "image"), Path(directory, "at")
        at.mkdir()
        image.touch()
        os.truncate(image, 8 << 20)
        refused = _refusal("mkfs.ext4", "-q", "-F", *features, str(image))
        refused = refused or _refusal("mount", "-o", "loop,nodev,nosuid", str(image), str(at))
        try:
            yield refused, at
        finally:
            if not refused:
                subprocess.run(["umount", str(at)], check=False)


#: EXT4_IOC_SHUTDOWN, and its flag that nothing more is written, the journal in memory included.
_SHUTDOWN, _NO_FLUSH = 0x8004587D, 2


@functools.cache
def power_cuts() -> str:
    """File systems that lose what was not flushed."""
    if missing := loop_mounts():
        return missing
    with _file_system() as (refused, at):
        if refused:
            return f"needs loop devices: {refused}"
        try:
            shut_down(at)
        except OSError as error:
            return f"needs a kernel that shuts down ext4: {error.strerror}"
    return ""


def shut_down(at: Path) -> None:
    """Have the ext4 that is mounted there stop as it is on its disk; what it holds in memory is lost."""
    place = os.open(at, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(place, _SHUTDOWN, struct.pack("=I", _NO_FLUSH))
    finally:
        os.close(place)


@functools.cache
def lvm() -> str:
    """LVM's tools, and the kernel's device mapper."""
    if missing := root() or host_programs("lvcreate", "thin_check", "losetup", "mkfs.ext4", "dmsetup")():
        return missing
    refused = _refusal("dmsetup", "version")
    return f"needs a kernel with device mapper: {refused}" if refused else ""


@functools.cache
def dm_crypt() -> str:
    """Encrypted devices."""
    if missing := root() or host_programs("cryptsetup")():
        return missing
    name = f"slotwise-host-{os.getpid()}"
    words = ["--type", "plain", "--cipher", "aes-xts-plain64", "--key-size", "512", "--key-file", "/dev/urandom"]
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as image:
        os.truncate(image.name, 8 << 20)
        if refused := _refusal("cryptsetup", "open", "-q", *words, image.name, name):
            return f"needs dm-crypt: {refused}"
        return _refusal("cryptsetup", "close", name)


@functools.cache
def fscrypt() -> str:
    """An ext4 that encrypts its files."""
    if missing := loop_mounts():
        return missing
    with _file_system("-O", "encrypt") as (refused, at):
        if refused:
            return f"needs fscrypt: {refused}"
        (at / "within").mkdir()
        top, within = (os.open(place, os.O_RDONLY | os.O_DIRECTORY) for place in (at, at / "within"))
        try:
            # FS_IOC_ADD_ENCRYPTION_KEY, whose key the kernel names; FS_IOC_SET_ENCRYPTION_POLICY, version 2, with it.
            key = bytearray(struct.pack("=II32sII32s", 2, 0, b"", 64, 0, b"") + os.urandom(64))
            fcntl.ioctl(top, 0xC0506617, key, True)
            fcntl.ioctl(within, 0x800C6613, struct.pack("=BBBBB3s16s", 2, 1, 4, 3, 0, b"", bytes(key[8:24])))
        except OSError as error:
            return f"needs fscrypt: the kernel encrypts no files of ext4: {error.strerror}"
        finally:
            os.close(top)
            os.close(within)
    return ""


def encryption() -> str:
    """One way to encrypt a scratch directory."""
    refused = [dm_crypt(), fscrypt()]
    return "" if "" in refused else "; ".join(refused)


@functools.cache
def fuse() -> str:
    """File systems in user space."""
    try:
        with unkillable.deaf_file_system():
            return ""
    except OSError as error:
        return f"needs FUSE: {error.filename}: {error.strerror}"


@functools.cache
def immutable_files() -> str:
    """Files that not even root can remove, where temporary files are."""
    if missing := root() or programs("chattr")():
        return missing
    with tempfile.NamedTemporaryFile(prefix="sw-") as file:
        refused = _refusal("chattr", "+i", file.name)
        subprocess.run(["chattr", "-i", file.name], capture_output=True, check=False)
    return f"needs a file system with immutable files: {refused}" if refused else ""


# ----------------------------------------------------------------------------------------------- namespaces, networks


@functools.cache
def process_namespaces() -> str:
    """Namespaces of processes."""
    if missing := root() or programs("unshare")():
        return missing
    refused = _refusal("unshare", "--pid", "--fork", "--mount-proc", "true")
    return f"needs namespaces of processes: {refused}" if refused else ""


@functools.cache
def network_namespaces() -> str:
    """Hosts with names and networks of their own, on one wire, see `tests.support.namespaces`."""
    if missing := root() or programs("ip", "openssl", "unshare", "mount", "hostname")():
        return missing
    name = f"swp{os.getpid()}"
    inside = ["ip", "netns", "exec", name, "unshare", "-u", "sh", "-c"]
    undo: list[list[str]] = []
    try:
        for words, back in (
            (["ip", "netns", "add", name], ["ip", "netns", "del", name]),
            (["ip", "link", "add", f"{name}b", "type", "bridge"], ["ip", "link", "del", f"{name}b"]),
            (["ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name], []),
            (["ip", "link", "set", name, "master", f"{name}b", "up"], []),
            ([*inside, "mount --bind /etc/hosts /etc/hosts && hostname nosuchhost.example"], []),
        ):
            if refused := _refusal(*words):
                return f"needs network namespaces: {refused}"
            undo += [back] if back else []
    finally:
        for back in reversed(undo):
            subprocess.run(back, capture_output=True, check=False)
    return ""


def firewall(rules: str) -> Probe:
    """A firewall that takes these rules, in a network namespace."""
    return lambda: network_namespaces() or programs("nft")() or _takes(rules)


@functools.cache
def _takes(rules: str) -> str:
    refused = _refusal("unshare", "--net", "sh", "-c", f"nft -f - <<'END'\n{rules}\nEND")
    return f"needs nft to take rules in a network namespace: {refused}" if refused else ""


@functools.cache
def virtual_cards() -> str:
    """Network cards that exist only in the kernel."""
    if missing := root() or programs("ip")():
        return missing
    name = f"swp{os.getpid()}"
    if refused := _refusal("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p"):
        return f"needs virtual network cards: {refused}"
    return _refusal("ip", "link", "del", name)


# ------------------------------------------------------------------------------------------ containers and machines


@functools.cache
def docker() -> str:
    """A Docker daemon of one's own that runs a container."""
    return root() or host_programs("dockerd", "docker", "containerd", "runc")() or _runs(containers.docker_daemon())


@functools.cache
def docker_with_network() -> str:
    """One whose containers have a network, in a network namespace."""
    return docker() or host_programs("ip", "nsenter", "unshare")() or _runs(containers.docker_daemon(bridge=True))


@functools.cache
def podman() -> str:
    """A podman that runs a container."""
    # Without the rights for namespaces podman works all the same, as for an ordinary user, and limits nothing.
    return process_namespaces() or host_programs("podman", "conmon", "runc")() or _runs(containers.podman())


def _runs(started: contextlib.AbstractContextManager[containers.Engine]) -> str:
    if missing := containers.no_busybox():
        return missing
    try:
        with started as engine:
            engine.call("run", "--rm", "--network=none", containers.IMAGE, "true")
    except containers.EngineError as error:
        return f"needs a container engine that runs containers: {error}"
    return ""


@functools.cache
def virtual_machines() -> str:
    """An emulator that runs a machine to its end."""
    if missing := programs("qemu-system-x86_64")():
        return missing
    with tempfile.NamedTemporaryFile(prefix="sw-", dir="/var/tmp") as image:
        image.write(vm_guest.disk())
        image.flush()
        words = ["-accel", "tcg", "-m", "32", "-display", "none", "-nodefaults"]
        refused = _refusal("qemu-system-x86_64", *words, "-drive", f"file={image.name},format=raw,if=ide")
        notes = vm_guest.notes(Path(image.name).read_bytes())
    if refused or notes.word != "DONE":
        return f"needs an emulator that runs machines: {refused or f'the guest is at {notes}'}"
    return ""


# -------------------------------------------------------------------------------------------------------- Apptainer


def apptainer() -> str:
    """Apptainer, or what it was called before."""
    return "" if images.apptainer() else f"needs apptainer on PATH, or {images.OURS}: .ci/apptainer installs it"


def image_directories() -> str:
    """An Apptainer that runs unpacked images for the account of jobs."""
    return _runs_image(is_file=False)


def image_files() -> str:
    """An Apptainer that makes image files and runs them for the account of jobs, mounted or unpacked."""
    return _runs_image(is_file=True)


@functools.cache
def image_pulls() -> str:
    """An Apptainer that makes image files of what a registry has."""
    if missing := image_files():
        return missing
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        registry = Registry(images.tree_of(images.image_directory(Path(directory, "image"))))
        try:
            words = ["pull", "--disable-cache", f"{directory}/image.sif", f"docker://{registry.address}/image:1"]
            refused = _refusal(images.apptainer(), *words, env={"APPTAINER_NOHTTPS": "1"})
        finally:
            registry.close()
    return f"needs an apptainer that pulls images: {refused}" if refused else ""


@functools.cache
def _runs_image(*, is_file: bool) -> str:
    account = ["setpriv", "--reuid", _NOBODY, "--regid", _NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
    if missing := apptainer() or programs(*images.PROGRAMS, "ldd", *account[:1])():
        return missing
    tool = images.apptainer()
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/var/tmp") as directory:
        top = Path(directory)
        top.chmod(0o755)
        image = images.image_directory(top / "image")
        if is_file:
            image = top / "image.sif"
            if refused := _refusal(tool, "build", "-F", str(image), str(top / "image")):
                return f"needs an apptainer that makes image files: {refused}"
            image.chmod(0o644)
        refused = ""
        for options in (["-C"], ["--contain", "--ipc"]):
            for unpacks in ([], ["--unsquash"]) if is_file else ([],):
                words = [*account, tool, "exec", *options, *unpacks, str(image), "cat", "/etc/image"]
                # A home as jobs have it, which Apptainer finds.
                refused = _refusal(*words, env={"HOME": "/"})
                if not refused:
                    return ""
    what = "image files" if is_file else "unpacked images"
    return f"needs an apptainer that runs {what}: {refused}"
