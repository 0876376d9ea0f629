"""How much work evaluations may do, in steps: visited nodes of expressions, and what functions do beyond that.

A daemon evaluates what users wrote, most of it on its event loop. :func:`limit_evaluations` bounds each evaluation of
the process and each query of a table; an :class:`Allowance` bounds all evaluations of a thread in a block. An
evaluation that reaches a bound gives ERROR.
"""

from __future__ import annotations

from types import TracebackType

from slotwise import _native

#: Steps of one evaluation in a daemon: a few milliseconds.
EACH_MOST = 200_000
#: Steps of one query of a table: a fraction of a second.
QUESTION_MOST = 10_000_000
#: Steps for each ad of a table that is queried in slices: a plain constraint takes one to ten, one with patterns some
#: dozens.
_OF_AN_AD = 200


_question_most: int | None = None
_own_most: int | None = None


def limit_evaluations(
    each: int = EACH_MOST, question: int | None = QUESTION_MOST, *, own_questions: bool = True
) -> None:
    """Limit each evaluation of this process to *each* steps from now on, and each query of a table to *question*; a
    query beyond that is refused.

    :param own_questions: False: only what others ask is limited, which is asked in slices, and not the queries of whole
        tables that a daemon makes itself.
    """
    global _question_most, _own_most
    _question_most = question
    _own_most = question if own_questions else None
    _native.limit_evaluations(each)


def own_question_most() -> int | None:
    """The steps that a query of a whole table may take; None: any number."""
    return _own_most


def question_most(ads: int = 0) -> int | None:
    """The steps that a question of others may take, by the number of ads if in slices; None: any number."""
    return None if _question_most is None else max(_question_most, _OF_AN_AD * ads)


class Allowance:
    """Steps for all evaluations of this thread within a ``with`` block, which must not await.

    Afterwards ``used`` says how many were done, ``broken`` how many evaluations were cut short, ``exhausted`` whether
    there was not enough for all of them.
    """

    __slots__ = ("_former", "_steps", "broken", "exhausted", "used")

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.used = self.broken = 0
        self.exhausted = False

    def __enter__(self) -> Allowance:
        self._former = _native.begin_allowance(self._steps)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.used, self.broken, self.exhausted = _native.end_allowance(self._former)
