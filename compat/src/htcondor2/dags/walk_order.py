"""In which order a DAG is walked."""

from __future__ import annotations

import enum


class WalkOrder(enum.Enum):
    """Children before siblings, or siblings before children."""

    DEPTH_FIRST = "DEPTH"
    BREADTH_FIRST = "BREADTH"
