"""What is said of conditions on the command line that name an attribute which is most likely misspelled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotwise.classad import ExprTree
from slotwise.cli.common.invocation import Invocation
from slotwise.errors import AdSyntaxError
from slotwise.model.attribute_names import meant_by


def misspelled(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names in these conditions, each with the attribute that it is most like; names of one's own are like none."""
    seen = set()
    for text in texts:
        try:
            read = ExprTree(text).references()
        except AdSyntaxError:
            continue  # who evaluates it says so
        for name in (*read.my, *read.target, *read.bare):
            if name.lower() not in seen and (meant := meant_by(name)) is not None:
                seen.add(name.lower())
                yield name, meant


def warn_of_misspelled(texts: Iterable[str], inv: Invocation) -> None:
    """Warn of them; under HTCondor's names nothing is said, as there."""
    if inv.called:
        return
    for name, meant in misspelled(texts):
        inv.err(f"WARNING: no ad has {name} unless somebody adds it (did you mean {meant}?)")
