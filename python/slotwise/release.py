"""The release of HTCondor whose behaviour is the specification, as version strings of ads and tools give it.

Programs compare its number, and HTCondor's own parser of versions wants number and date.
"""

from __future__ import annotations

import platform
from pathlib import Path

from slotwise import __version__

#: Its number and the day of its release.
HTCONDOR, _DATE = "25.14.0", "2026-10-16"

#: The installation laid out as HTCondor's RELEASE_DIR, which it is by default: its directories, and those of the
#: package that they are links to. `slotwise condor-names` makes them.
RELEASE_DIR = Path(__file__).parent / "release_dir"
LAYOUT = {"bin": "condor_names", "sbin": "condor_names", "libexec": "libexec"}

#: ``CondorVersion`` of ads; the first line of ``condor_version``.
CONDOR_VERSION = f"$CondorVersion: {HTCONDOR} {_DATE} BuildID: Slotwise-{__version__} $"


def condor_platform(system: str = "Linux") -> str:
    """``CondorPlatform`` of ads; the second line of ``condor_version``. ``system``: OpSysAndVer, where it is known."""
    return f"$CondorPlatform: {platform.machine().upper()}-{system} $"
