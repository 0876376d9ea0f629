"""Expressions as people write them: in configurations, submit descriptions and on command lines.

There a backslash in a string stands for itself, as in the old syntax of ads; everywhere else it begins an escape.
"""

from __future__ import annotations

from slotwise._native import ExprTree


def new_syntax(text: str) -> str:
    """The text, in the new syntax, of an expression that a person wrote.

    A text that means the same in both, or that is not an expression, is returned unchanged.

    >>> new_syntax(r'regexp("^node\\d+\\.example", Machine)')
    'regexp("^node\\\\\\\\d+\\\\\\\\.example",Machine)'
    """
    if "\\" not in text:
        return text
    try:
        return str(ExprTree(text, old=True))
    except ValueError:
        return text
