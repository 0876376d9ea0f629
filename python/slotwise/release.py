"""The release of HTCondor whose behaviour is the specification, as version strings of ads and tools give it.

Programs compare its number, and HTCondor's own parser of versions wants number and date.
"""

from __future__ import annotations

import platform

from slotwise import __version__

#: Its number and the day of its release.
HTCONDOR, _DATE = "25.14.0", "2026-10-16"

#: ``CondorVersion`` of ads; the first line of ``condor_version``.
CONDOR_VERSION = f"$CondorVersion: {HTCONDOR} {_DATE} BuildID: Slotwise-{__version__} $"


def condor_platform(system: str = "Linux") -> str:
    """``CondorPlatform`` of ads; the second line of ``condor_version``. ``system``: OpSysAndVer, where it is known."""
    return f"$CondorPlatform: {platform.machine().upper()}-{system} $"
