"""`slotwise.submit.outline`: a description up to its queue statement, for programs that change it first."""

from __future__ import annotations

import pytest
from slotwise.errors import SubmitError
from slotwise.submit import outline


def test_statements_keep_their_order_and_macros() -> None:
    found = outline("b = 1\nA = $(b)2\n+X = 3\nqueue 4\n")
    assert found.statements == (("b", "1", "1"), ("A", "$(b)2", "12"), ("MY.X", "3", "3"))
    assert (found.queue, found.items) == ("4", None)


def test_items_of_the_queue_statement_come_by_variable() -> None:
    found = outline("queue 2 x,y from (\n1, 2\n3, 4\n)\n")
    assert (found.queue, found.variables) == ("2 x,y from (", ("x", "y"))
    assert found.items == (("1", "2"), ("3", "4"))


def test_another_queue_statement_takes_the_place_of_the_descriptions() -> None:
    found = outline("a = 1\nqueue 7\n", queue_args="in (p q)")
    assert (found.queue, found.items) == ("in (p q)", (("p",), ("q",)))


def test_a_description_without_a_queue_statement_has_none() -> None:
    assert outline("a = 1\n").queue is None


def test_what_the_language_refuses_is_refused_with_its_line() -> None:
    with pytest.raises(SubmitError, match="2: `what is this` is no"):
        outline("a = 1\nwhat is this\n")
