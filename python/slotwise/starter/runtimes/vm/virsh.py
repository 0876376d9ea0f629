"""Runs a machine by libvirt's own command, virsh: its language binding is not everywhere where libvirt is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from slotwise.starter.runtimes.vm.domain import description
from slotwise.starter.runtimes.vm.hypervisor import MachineGoneError
from slotwise.starter.runtimes.vm.machine import BAD_IMAGE, CRITICAL, MachineError
from slotwise.starter.runtimes.vm.plan import SupervisorPlan
from slotwise.starter.runtimes.vm.rules import LIBVIRT

#: How long virsh may take, seconds; it starts a daemon first where the job has its own.
_PATIENCE_S = 60.0
#: How long a machine that is to be destroyed may stay.
_GONE_S = 10.0
_SESSION = "qemu:///session"
#: The job's own libvirt: everything in files of the job, nothing that outlives it.
_QEMU_CONF = 'stdio_handler = "file"\nnamespaces = []\ncgroup_controllers = []\n'
_MARKER = "_SLOTWISE_FAMILY"


class Domain:
    """One machine in libvirt; see `Hypervisor`."""

    driver = LIBVIRT

    def __init__(self, plan: SupervisorPlan) -> None:
        self._plan = plan
        self.accelerator = plan.accelerator
        self._name = plan.machine.name
        self._env = dict(os.environ)
        self._events: subprocess.Popen[bytes] | None = None
        #: What libvirt reports of the machine's end.
        self._heard = b""
        self._misses = 0
        self._running = False
        if plan.uri == _SESSION:
            self._own_session()

    def _own_session(self) -> None:
        """Have the job's own libvirt in its scratch directory, under a path that is short enough for sockets."""
        place = Path(self._plan.scratch) / ".libvirt"
        for name in ("run", "config/libvirt", "cache", "data"):
            (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / "config" / "libvirt" / "qemu.conf").write_text(_QEMU_CONF)
        os.chdir(self._plan.scratch)
        short = f"/proc/{os.getpid()}/cwd/.libvirt"
        self._env |= {
            "XDG_RUNTIME_DIR": f"{short}/run",
            "XDG_CONFIG_HOME": f"{short}/config",
            "XDG_CACHE_HOME": f"{short}/cache",
            "XDG_DATA_HOME": f"{short}/data",
        }

    def fileno(self) -> int:
        """Where libvirt reports events; -1 once it has ended."""
        if self._events is None or self._events.stdout is None or self._events.poll() is not None:
            return -1
        return self._events.stdout.fileno()

    def start(self) -> None:
        """Start the machine anew."""
        self._begin("create", "/dev/stdin")

    def _description(self) -> str:
        return self._plan.xml or description(
            self._plan.machine,
            self.accelerator,
            in_session=self._plan.uri == _SESSION,
            marker=f"{_MARKER}={self._env[_MARKER]}" if self._plan.uri == _SESSION and _MARKER in self._env else "",
            vnc=f"{self._plan.scratch}/vm_console.sock" if self._plan.machine.vnc else "",
            rights=self._plan.rights,
        )

    def resume(self, path: str, version: str) -> None:
        """Start the machine from a saved state, as it is described now: the state may have come with the job."""
        self._begin("restore", path, "--xml", "/dev/stdin")

    def _begin(self, *words: str) -> None:
        self._listen()
        status, said = self._virsh(*words, given=self._description())
        if status != 0:
            raise MachineError(BAD_IMAGE if "qcow2 format" in said else CRITICAL, said)
        self._running = True

    def _listen(self) -> None:
        """Have libvirt report what becomes of its machines."""
        if self.fileno() >= 0:
            return
        words = ("virsh", "-q", "-c", self._plan.uri, "event", "--event", "lifecycle", "--loop")
        try:
            self._events = subprocess.Popen(
                words, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise MachineError(CRITICAL, f"virsh cannot be run: {error.strerror}") from None

    def ended(self) -> bool:
        """Whether the machine has powered itself off."""
        if self.fileno() >= 0 and self._events is not None and self._events.stdout is not None:
            os.set_blocking(self._events.stdout.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                self._heard = (self._heard + (self._events.stdout.read() or b""))[-20000:]
        status, said = self._virsh("domstate", self._name)
        if status != 0 and not _is_absent(said):
            self._misses += 1
            if self._misses >= self._plan.status_errors:
                raise MachineGoneError(f"libvirt does not say how the machine is: {said}")
            return False
        self._misses = 0
        if status == 0 and not said.startswith(("shut off", "crashed")):
            return False
        self._running = False
        ours = [line for line in self._heard.decode(errors="replace").splitlines() if f"'{self._name}'" in line]
        last = next((line for line in reversed(ours) if "Stopped" in line or "Crashed" in line), "")
        if "Failed" in last or "Crashed" in last or said.startswith("crashed"):
            raise MachineGoneError(f"libvirt: {last or said}")
        return True

    def pause(self) -> None:
        """Stop the machine; it keeps its memory."""
        self._must("suspend", self._name)

    def go_on(self) -> None:
        """Let a paused machine go on."""
        _, state = self._virsh("domstate", self._name)
        if state.startswith("paused"):
            self._must("resume", self._name)

    def save(self, path: str) -> str:
        """Write the machine's state to a file; it is gone then."""
        self._must("save", self._name, path)
        self._running = False
        return ""

    def press_power_button(self) -> None:
        """Ask the machine to power itself off."""
        self._must("shutdown", self._name)

    def destroy(self) -> None:
        """End the machine at once, if it is there."""
        if self._running:
            self._virsh("destroy", self._name)
            self._running = False
        if self._events is not None:
            self._events.kill()
            self._events.wait()
            self._events = None
        if self._plan.uri == _SESSION:
            end_session(Path(self._plan.scratch), os.geteuid())

    def _must(self, *words: str) -> None:
        status, said = self._virsh(*words)
        if status != 0:
            raise MachineGoneError(said)

    def _virsh(self, *words: str, given: str = "") -> tuple[int, str]:
        return virsh(self._plan.uri, *words, env=self._env, given=given)


def virsh(uri: str, *words: str, env: dict[str, str] | None = None, given: str = "") -> tuple[int, str]:
    """The status of a command of virsh, and what it says; it reads what is ``given``."""
    try:
        done = subprocess.run(
            ("virsh", "-q", "-c", uri, *words),
            env=env,
            input=given.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, f"virsh {words[0]}: {error}"
    return done.returncode, done.stdout.decode(errors="replace").strip()


def _is_absent(said: str) -> bool:
    return "failed to get domain" in said or "Domain not found" in said


def destroy_domain(uri: str, name: str) -> str:
    """Destroy a machine whose supervisor is gone; why that failed, empty when it is not there any more. Blocks."""
    deadline = time.monotonic() + _GONE_S
    while True:
        status, said = virsh(uri, "destroy", name)
        if status == 0 or _is_absent(said):
            return ""
        if time.monotonic() > deadline:
            return said
        time.sleep(0.2)


def end_session(scratch: Path, uid: int) -> None:
    """End the libvirt of a job's own, which runs as ``uid``; by itself it waits for two minutes."""
    for file in (scratch / ".libvirt" / "run" / "libvirt").glob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            # Whatever the account has put there: only a process of its own is ended.
            if pid > 1 and Path(f"/proc/{pid}").stat().st_uid == uid == file.lstat().st_uid:
                os.kill(pid, signal.SIGKILL)
