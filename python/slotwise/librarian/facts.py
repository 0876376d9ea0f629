"""What the library keeps of a record: the words of its banner, and some attributes of the ad. Pure."""

from __future__ import annotations

import re

from msgspec import Struct

from slotwise.classad import ExprTree
from slotwise.classad.values import Value
from slotwise.daemon.history_file import Located
from slotwise.errors import AdSyntaxError

_WORD = re.compile(r'(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+) ?= ?("[^"\n]*+"|[^\s"]++)')
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OF_AD = re.compile(rb"^(DAGManJobId|JobBatchId|JobBatchName) = ([^\r\n]+)", re.MULTILINE | re.IGNORECASE)


class Facts(Struct, frozen=True):
    """A record of a job; None for what its ad does not say.

    :param completed: epoch seconds; not positive for a job that did not complete.
    """

    cluster: int
    proc: int
    owner: str
    completed: int = 0
    dag: int | None = None
    batch_id: str | None = None
    batch_name: str | None = None


def facts_of(record: Located) -> Facts | None:
    """The facts; None for a record whose banner does not say which job it is of."""
    # The first of a name counts: what a job's owner chose comes last.
    words: dict[str, str] = {}
    for name, value in _WORD.findall(record.banner.decode(errors="replace")):
        words.setdefault(name.lower(), value)
    cluster, proc = _number(words.get("clusterid")), _number(words.get("procid"))
    if cluster is None or proc is None:
        return None
    values = {name.decode().lower(): _value(text, record) for name, text in _OF_AD.findall(record.body)}
    dag = values.get("dagmanjobid")
    return Facts(
        cluster,
        proc,
        words.get("owner", "").strip('"'),
        _number(words.get("completiondate")) or 0,
        int(dag) if isinstance(dag, bool | int | float) and abs(dag) < 1 << 63 else None,
        _text(values.get("jobbatchid")),
        _text(values.get("jobbatchname")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def _value(text: bytes, record: Located) -> Value:
    """An attribute's value; the whole ad is read for one that depends on others."""
    try:
        expression = ExprTree(text.decode(errors="replace"), old=True)
        read = expression.references()
        return expression.eval(next(record.ads(), None) if read.bare or read.my else None)
    except AdSyntaxError:
        return None


def _text(value: Value) -> str | None:
    # Bytes that are no UTF-8 cannot be stored as text.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None
