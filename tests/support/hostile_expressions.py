"""Expressions of users that cost a daemon much."""

from __future__ import annotations

from typing import Any

from slotwise.classad import ExprTree

#: Constraints that cost much for each of many jobs, each in another way: none of them is over the limit of a question
#: before hundreds of milliseconds of work are done.
HOSTILE = {
    "arithmetic": " + ".join(["ProcId"] * 500) + " < 0",
    "calls": " || ".join(f'regexp("^(a|aa)+{n}$", strcat(ProcId, "aaaaaaaaaaaa"))' for n in range(40)),
    "text": " || ".join(f'eval(strcat("ProcId + {n}")) < 0' for n in range(40)),
    "definitions": "D12 == 0 && ProcId < 0",
}


def bomb(name: str, then: str = "false") -> dict[str, Any]:
    """Attributes that double the work with each level; 10 million steps and more were done for one evaluation."""
    levels = {f"D{n}": ExprTree(f"D{n - 1} + D{n - 1}") for n in range(1, 40)}
    return {"D0": ExprTree("1 + (ProcId ?: Number)"), **levels, name: ExprTree(f"D39 == 0 || {then}")}
