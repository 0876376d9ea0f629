"""JobStatus and JobUniverse: their numbers and letters, and the moves that a job may make."""

from __future__ import annotations

from enum import IntEnum

from slotwise.model.job_status import JobStatus

#: As the schedd calls it.
Status = JobStatus


class Universe(IntEnum):
    """JobUniverse: the universes whose jobs can run."""

    VANILLA = 5
    SCHEDULER = 7
    JAVA = 10
    PARALLEL = 11
    LOCAL = 12
    VM = 13


#: Universes whose jobs run on the access point itself.
RUN_HERE = frozenset((Universe.SCHEDULER, Universe.LOCAL))


LETTERS = {1: "I", 2: "R", 3: "X", 4: "C", 5: "H", 6: ">", 7: "S"}

#: The transitions between states; removed and completed jobs leave the queue.
MOVES: dict[int, frozenset[int]] = {
    1: frozenset({2, 3, 5}),
    2: frozenset({1, 3, 4, 5, 6, 7}),
    5: frozenset({1, 3}),
    6: frozenset({1, 2, 3, 4, 5}),
    7: frozenset({1, 2, 3, 5}),
    3: frozenset(),
    4: frozenset(),
}
