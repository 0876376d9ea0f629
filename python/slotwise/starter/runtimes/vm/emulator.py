"""Runs a machine by qemu directly: no daemon, no rights but those of the job's account."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time

from slotwise.starter.runtimes.vm.hypervisor import MachineGoneError
from slotwise.starter.runtimes.vm.machine import BAD_IMAGE, CRITICAL, Machine, MachineError
from slotwise.starter.runtimes.vm.qemu_words import NEWEST, Handles, words
from slotwise.starter.runtimes.vm.qmp import Qmp, QmpError
from slotwise.starter.runtimes.vm.rules import QEMU

#: How long qemu may take to leave once it was told to, seconds.
_LEAVE_S = 10.0
_PR_SET_PDEATHSIG = 1
#: Bytes a second that a state is written with: as fast as the disk takes them.
_UNBOUND = 1 << 50
_SAVE_POLL_S = 0.02


class QemuDiedError(MachineGoneError):
    """qemu has ended; ``status`` as of `subprocess`: an exit code, or a signal's number negated."""

    def __init__(self, status: int, words_of_it: str) -> None:
        super().__init__(words_of_it or f"qemu ended with status {status}")
        self.status = status


class Emulator:
    """One machine and its qemu; see `Hypervisor`."""

    driver = QEMU

    def __init__(self, machine: Machine, program: str, accelerator: str, vnc: str = "") -> None:
        self._machine = machine
        self._program = program
        self.accelerator = accelerator
        self._vnc = vnc
        self._process: subprocess.Popen[bytes] | None = None
        self._qmp: Qmp | None = None
        self._stderr = os.memfd_create("qemu-stderr", os.MFD_CLOEXEC)

    def fileno(self) -> int:
        """The control connection."""
        return self._control().fileno()

    def start(self) -> None:
        """Start the machine anew."""
        self._run(NEWEST, None)

    def resume(self, path: str, version: str) -> None:
        """Start the machine from a saved state."""
        saved = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._run(version, saved)
            self._await_arrival()
        finally:
            os.close(saved)
        self.go_on()

    def _run(self, version: str, saved: int | None) -> None:
        ours, theirs = socket.socketpair()
        handles = Handles(theirs.fileno(), saved)
        inherited = tuple(fd for fd in (handles.control, saved) if fd is not None)
        line = words(self._machine, self._program, self.accelerator, handles, version=version, vnc=self._vnc)
        os.ftruncate(self._stderr, 0)
        try:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=inherited,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            raise MachineError(CRITICAL, f"{self._program} cannot be run: {error.strerror}") from None
        finally:
            theirs.close()
        self._qmp = Qmp(ours)
        try:
            self._qmp.greet()
        except QmpError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: QmpError) -> MachineError:
        """Why qemu did not start, by its own words."""
        self.destroy()
        said = self._said() or f"{self._program}: {error}"
        bad = "is not in qcow2 format" in said or "Image is not in" in said
        return MachineError(BAD_IMAGE if bad else CRITICAL, said)

    def _said(self) -> str:
        """The end of what qemu has written to standard error."""
        with contextlib.suppress(OSError):
            return os.pread(self._stderr, 4000, 0).decode(errors="replace").strip()[-1000:]
        return ""

    def _await_arrival(self) -> None:
        """Wait until the saved state has been read."""
        qmp = self._control()
        while True:
            try:
                status = qmp.execute("query-status")
            except QmpError as error:
                raise self._refusal(error) from None
            if not (isinstance(status, dict) and status.get("status") == "inmigrate"):
                return
            time.sleep(_SAVE_POLL_S)

    def ended(self) -> bool:
        """Whether the machine has powered itself off."""
        qmp = self._control()
        qmp.read_events()
        if not qmp.closed:
            return False
        status = self._wait()
        by_itself = any(name == "SHUTDOWN" for name, _data in qmp.events)
        if status == 0 and by_itself:
            return True
        raise QemuDiedError(status, self._said())

    def pause(self) -> None:
        """Stop the machine; it keeps its memory."""
        self._command("stop")

    def go_on(self) -> None:
        """Let a paused machine go on."""
        self._command("cont")

    def save(self, path: str) -> str:
        """Write the machine's state to a file; it is gone then."""
        qmp = self._control()
        self._command("stop")
        version = qmp.execute("qom-get", path="/machine", property="type")
        state = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            qmp.execute("migrate-set-parameters", max_bandwidth=_UNBOUND)
            qmp.execute("getfd", files=(state,), fdname="state")
            qmp.execute("migrate", uri="fd:state")
            while True:
                found = qmp.execute("query-migrate")
                status = found.get("status") if isinstance(found, dict) else None
                if status == "completed":
                    break
                if status in ("failed", "cancelled"):
                    detail = found.get("error-desc", status) if isinstance(found, dict) else status
                    raise MachineGoneError(f"its state cannot be written: {detail}")
                time.sleep(_SAVE_POLL_S)
            os.fsync(state)
        except QmpError as error:
            raise MachineGoneError(str(error)) from None
        finally:
            os.close(state)
        self.destroy()
        return str(version).removesuffix("-machine")

    def press_power_button(self) -> None:
        """Ask the machine to power itself off."""
        self._command("system_powerdown")

    def destroy(self) -> None:
        """End qemu, if it is there."""
        if self._process is None:
            return
        with contextlib.suppress(QmpError):
            if self._qmp is not None and not self._qmp.closed:
                self._qmp.execute("quit")
        self._wait()

    def _wait(self) -> int:
        """The status of qemu once it has ended; it is killed if it does not."""
        assert self._process is not None
        try:
            return self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _command(self, command: str) -> None:
        try:
            self._control().execute(command)
        except QmpError as error:
            raise MachineGoneError(str(error)) from None

    def _control(self) -> Qmp:
        if self._qmp is None:
            raise MachineGoneError("the machine has not been started")
        return self._qmp


def _die_with_parent() -> None:
    """qemu does not outlive its supervisor, whatever ends that."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
