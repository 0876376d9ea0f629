"""What the host is and how it fares: one source of facts per file, each giving attributes for the machine's ads.

Files are read below a root directory that the caller may replace. Values are as HTCondor publishes them: Memory in
MiB, Disk and VirtualMemory in KiB, idle times in seconds.
"""

from __future__ import annotations

from typing import TypeAlias

#: Attribute name -> value.
Attributes: TypeAlias = dict[str, bool | int | float | str]
