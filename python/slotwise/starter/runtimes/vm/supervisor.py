"""The process that stands for a machine: its keeper's child, the job as the starter knows it.

It runs the machine, ends when that powers itself off, and obeys the keeper: SIGTSTP and SIGCONT suspend the machine and
let it go on; any signal that asks a job to leave saves it (vm_checkpoint) or has it power itself off. It ends with
status 0 then; a failure is in `plan.REPORT`.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from slotwise.starter.runtimes.vm.emulator import Emulator, QemuDiedError
from slotwise.starter.runtimes.vm.hypervisor import Hypervisor, MachineGoneError
from slotwise.starter.runtimes.vm.machine import CRITICAL, MachineError
from slotwise.starter.runtimes.vm.plan import NOTE, REPORT, Report, SupervisorPlan, decode_plan
from slotwise.starter.runtimes.vm.qemu_words import NEWEST
from slotwise.starter.runtimes.vm.rules import LIBVIRT
from slotwise.starter.runtimes.vm.saved_state import FACTS, STATE, SavedFacts, decode_facts, facts_of, obstacle

#: What asks a job to leave: its own soft kill signals are among these.
_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_SUSPEND = (signal.SIGTSTP, signal.SIGCONT)
#: The status of a supervisor whose machine could not be run to its end.
FAILED = 1


class Supervisor:
    """One machine under supervision."""

    def __init__(self, plan: SupervisorPlan, hypervisor: Hypervisor) -> None:
        self._plan = plan
        self._machine = plan.machine
        self._hypervisor = hypervisor
        place = Path(plan.state_dir or plan.scratch)
        self._state, self._facts = place / STATE, place / FACTS
        self._paused = False
        #: It is suspended in a file: there is no machine.
        self._saved = False
        #: When a machine that was told to power off is destroyed.
        self._destroy_at: float | None = None
        self._over = False

    def run(self) -> int:
        """Run the machine to its end; returns the status of the process."""
        wakeup = _listen()
        try:
            self._start()
            while not self._over:
                self._wait(wakeup)
        except MachineError as error:
            return self._fail(Report(error.word, str(error).partition(": ")[2]))
        except QemuDiedError as error:
            if error.status < 0:  # out of memory, above all: the job ends as its machine did
                os.kill(os.getpid(), -error.status)
            return self._fail(Report(CRITICAL, str(error)))
        except (MachineGoneError, OSError) as error:
            return self._fail(Report(CRITICAL, str(error)))
        finally:
            self._hypervisor.destroy()
        return 0

    def _start(self) -> None:
        """Go on from a checkpoint, if there is one that fits; else boot from the disks."""
        for name in (REPORT, NOTE):
            (Path(self._plan.scratch) / name).unlink(missing_ok=True)
        saved = self._checkpoint() if self._machine.checkpoint else None
        if saved is not None:
            why = obstacle(saved, self._facts_now(saved.version)) or self._resumed(saved)
            if not why:
                self._forget_checkpoint()
                return
            self._write(NOTE, f"it cannot go on from its checkpoint: {why}")
        self._forget_checkpoint()
        self._hypervisor.start()

    def _resumed(self, saved: SavedFacts) -> str:
        """Go on from a checkpoint; why that fails, empty when the machine runs."""
        try:
            self._hypervisor.resume(str(self._state), saved.version)
        except MachineError as error:
            self._hypervisor.destroy()  # as after a power failure: it boots from its disks
            return str(error)
        return ""

    def _checkpoint(self) -> SavedFacts | None:
        try:
            found = decode_facts(self._facts.read_text())
        except (OSError, ValueError):
            return None
        return found if self._state.is_file() else None

    def _forget_checkpoint(self) -> None:
        for path in (self._facts, self._state):
            path.unlink(missing_ok=True)

    def _facts_now(self, version: str) -> SavedFacts:
        machine, runs = self._machine, self._hypervisor
        return facts_of(machine, runs.driver, version, runs.accelerator, self._sizes())

    def _sizes(self) -> Mapping[str, int]:
        found = {}
        for disk in self._machine.disks:
            with contextlib.suppress(OSError):
                found[disk.device] = Path(disk.path).stat().st_size
        return found

    # ---- at work

    def _wait(self, wakeup: int) -> None:
        """Sleep until something happens or is due, and do it."""
        patience = self._plan.status_s
        if self._destroy_at is not None:
            patience = max(0.0, min(patience, self._destroy_at - time.monotonic()))
        handles = [wakeup]
        if not self._saved and (machine := self._hypervisor.fileno()) >= 0:
            handles.append(machine)
        ready, _, _ = select.select(handles, [], [], patience)
        if wakeup in ready:
            self._obey(os.read(wakeup, 4096))
        if not self._over and not self._saved and self._hypervisor.ended():
            self._powered_off()
        if not self._over and self._destroy_at is not None and time.monotonic() >= self._destroy_at:
            self._hypervisor.destroy()
            self._over = True

    def _obey(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGTSTP:
                self._suspend()
            elif number == signal.SIGCONT:
                self._continue()
            elif number in _LEAVE:
                self._leave()

    def _suspend(self) -> None:
        if self._saved or self._paused or self._destroy_at is not None:
            return
        if not self._plan.soft_suspend and self._save():
            self._saved = True
            return
        self._hypervisor.pause()
        self._paused = True

    def _continue(self) -> None:
        if self._saved:
            self._saved = False
            saved = self._checkpoint()
            self._hypervisor.resume(str(self._state), saved.version if saved is not None else NEWEST)
            self._forget_checkpoint()
        elif self._paused:
            self._hypervisor.go_on()
            self._paused = False

    def _save(self) -> bool:
        """Write the machine to files, whole or not at all; it is gone then. False where that fails: it is stopped."""
        state, facts = (path.with_name(f"{path.name}.new") for path in (self._state, self._facts))
        try:
            version = self._hypervisor.save(str(state))
            facts.write_text(self._facts_now(version).encode())
            state.rename(self._state)
            facts.rename(self._facts)
        except (MachineGoneError, OSError):
            for path in (state, facts):
                with contextlib.suppress(OSError):
                    path.unlink()
            return False
        return True

    def _leave(self) -> None:
        """The keeper asks it to leave: save the machine, or have it power itself off."""
        if self._destroy_at is not None:
            return
        if self._machine.checkpoint and (self._saved or self._save()):
            self._over = True
            return
        if self._saved:
            self._forget_checkpoint()
            self._over = True
            return
        self._hypervisor.go_on()  # stopped, it would not hear the button
        self._paused = False
        self._hypervisor.press_power_button()
        self._destroy_at = time.monotonic() + self._plan.kill_s

    def _powered_off(self) -> None:
        """The machine is off. Its disks go back as outputs, unless they are not wanted."""
        self._over = True
        if self._machine.no_output:
            for disk in self._machine.disks:
                if disk.transferred:
                    with contextlib.suppress(OSError):
                        Path(disk.path).unlink()

    def _fail(self, report: Report) -> int:
        self._write(REPORT, report.encode())
        sys.stderr.write(f"{report.reason}\n")
        return FAILED

    def _write(self, name: str, text: str) -> None:
        """Leave word for the starter in the scratch directory."""
        with contextlib.suppress(OSError):
            # Made anew: whoever has put a link there does not choose what is written to.
            path = Path(self._plan.scratch) / name
            path.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(path, flags, 0o644), "w") as file:
                file.write(text)


def _listen() -> int:
    """Have signals written to a pipe, and return the end that they are read from."""
    wakeup, tell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in (*_LEAVE, *_SUSPEND):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    # The keeper's word may have come before: it waits, blocked.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SUSPEND)
    return wakeup


def hypervisor_of(plan: SupervisorPlan) -> Hypervisor:
    """What runs the machine of a plan."""
    vnc = f"{plan.scratch}/vm_console.sock" if plan.machine.vnc else ""
    if plan.driver == LIBVIRT:
        from slotwise.starter.runtimes.vm.virsh import Domain

        return Domain(plan)
    return Emulator(plan.machine, plan.qemu, plan.accelerator, vnc)


def main(arguments: list[str]) -> int:
    """Run the machine of the plan on the command line."""
    plan = decode_plan(arguments[0])
    return Supervisor(plan, hypervisor_of(plan)).run()
