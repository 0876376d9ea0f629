"""What a supervisor is told, on its command line, and what it leaves behind."""

from __future__ import annotations

import json

from msgspec import Struct
from msgspec.structs import asdict

from slotwise.starter.runtimes.vm.machine import Machine, decode, subcode_of

#: In the scratch directory: how the machine ended, if not by powering itself off.
REPORT = ".vm_report"
#: Beside it: why a machine could not go on from its checkpoint.
NOTE = ".vm_note"


class SupervisorPlan(Struct, frozen=True):
    """A machine to run, and how. Times in seconds."""

    machine: Machine
    scratch: str
    #: qemu or libvirt.
    driver: str
    accelerator: str
    qemu: str = ""
    uri: str = ""
    #: The account that the emulator runs as in a libvirt of the host; empty: libvirt's choice.
    rights: str = ""
    #: The description of the machine for libvirt; empty: the usual one.
    xml: str = ""
    #: Where its state is written; empty: the scratch directory, where it is the job's.
    state_dir: str = ""
    soft_suspend: bool = False
    kill_s: float = 60.0
    status_s: float = 60.0
    status_errors: int = 5

    def encode(self) -> str:
        """As text, for :func:`decode_plan`."""
        return json.dumps({**asdict(self), "machine": self.machine.encode()})


def decode_plan(text: str) -> SupervisorPlan:
    """The plan of a text that :meth:`SupervisorPlan.encode` made.

    :raises ValueError: when it is none.
    """
    fields = json.loads(text)
    fields["machine"] = decode(fields["machine"])
    return SupervisorPlan(**fields)


class Report(Struct, frozen=True):
    """Why a machine did not run to its end. ``word`` is HTCondor's name for it."""

    word: str
    detail: str

    def encode(self) -> str:
        """As text, for :func:`decode_report`."""
        return json.dumps(asdict(self))

    @property
    def reason(self) -> str:
        """In words."""
        return f"{self.word}: {' '.join(self.detail.split())}"

    @property
    def subcode(self) -> int | None:
        """The subcode of the job's hold; None: it may run elsewhere."""
        return subcode_of(self.word)


def decode_report(text: str) -> Report | None:
    """The report of a text; None when it is none."""
    try:
        fields = json.loads(text)
        return Report(str(fields["word"]), str(fields["detail"]))
    except (ValueError, KeyError, TypeError):
        return None
