"""Mails of the master about daemons that ended by themselves: which are sent, and HTCondor's texts."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from slotwise.master.obituaries import Death, is_mailed, subject_of, text_of

LOG = Path("/var/log/condor/SchedLog")


@pytest.mark.parametrize(
    ("death", "expected"),
    [
        (Death("schedd", -signal.SIGSEGV), True),
        (Death("schedd", 1), True),
        (Death("schedd", 0), False),
        (Death("schedd", 99), False),  # it asked not to be started again
        (Death("schedd", -signal.SIGKILL), False),  # somebody did that by hand
        (Death("schedd", -signal.SIGKILL, hung=True), True),
        (Death("schedd", 1, in_a_row=4), True),
        (Death("schedd", 1, in_a_row=5), False),
        (Death("schedd", -signal.SIGKILL, hung=True, in_a_row=5), False),
    ],
)
def test_an_administrator_hears_of_what_he_did_not_do_and_not_without_end(death: Death, expected: bool) -> None:
    assert is_mailed(death) is expected


@pytest.mark.parametrize(
    ("death", "subject", "text"),
    [
        (
            Death("schedd", -signal.SIGSEGV, restart_s=9.5),
            "Problem h.org: schedd died (11)",
            '"schedd" on "h.org" died due to signal 11 (Segmentation fault).\n'
            "Condor will automatically restart this process in 9 seconds.\n",
        ),
        (
            Death("schedd", 4),
            "Problem h.org: schedd exited (4)",
            '"schedd" on "h.org" exited with status 4.\nCondor will automatically restart this process in 0 seconds.\n',
        ),
        (
            Death("schedd", -signal.SIGABRT, hung=True),
            "Problem h.org: schedd killed (unresponsive)",
            '"schedd" on "h.org" was killed because\nit was no longer responding.\n'
            "Condor will automatically restart this process in 0 seconds.\n",
        ),
    ],
)
def test_an_obituary_is_htcondors(death: Death, subject: str, text: str) -> None:
    assert subject_of(death, "h.org") == subject
    assert text_of(death, "h.org", LOG, [], 200) == text
    with_log = text_of(death, "h.org", LOG, ["first", "last\x1b[2J"], 200)
    tail = f"\n*** Last 200 line(s) of file {LOG}:\nfirst\nlast\\x1b[2J\n*** End of file SchedLog\n\n"
    assert with_log == text + tail
