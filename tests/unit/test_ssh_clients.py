"""Clients of ssh for a visit to a job: the command that ``-ssh CLIENT`` means."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotwise.cli.jobs.ssh_clients import command_line
from slotwise.errors import UsageError

HERE = Path("/t/condor_ssh_to_job")


def test_the_client_gets_us_in_place_of_ssh_and_the_job_as_host() -> None:
    scp = ["scp", "-S", str(HERE), "-r", "3.0:out", "."]
    assert command_line("scp -r", "3.0", ["remote:out", "."], HERE) == scp
    assert command_line("sftp -b x", "3.0", [], HERE) == ["sftp", "-S", str(HERE), "-b", "x", "3.0"]


def test_signs_of_condor_ssh_to_job_in_the_client() -> None:
    rsync = ["rsync", "-e", str(HERE), "-a", "3.0:out", "100%"]
    assert command_line("rsync -a %h:out 100%%", "3.0", [], HERE) == rsync
    assert command_line("rsync %%h", "3.0", [], HERE)[-1] == "%h"


@pytest.mark.parametrize("sign", ["%i", "%u", "%x", "%k", "%z", "a%"])
def test_a_sign_that_stands_for_nothing_is_refused(sign: str) -> None:
    with pytest.raises(UsageError, match="unexpected %"):
        command_line(f"scp {sign}", "3.0", [], HERE)
