"""Prints what each line of a file of expressions gives with the module at hand, or the events of a log."""

from __future__ import annotations

import datetime
import pickle
import sys
from pathlib import Path


def shown(value: object) -> str:
    """Type and text of a value, or of the elements of a list."""
    return repr(value) if isinstance(value, list) else f"{type(value).__name__}: {value!r} | {value}"


def evaluate(path: Path, names: dict[str, object]) -> None:
    for line in path.read_text().splitlines():
        try:
            told = shown(eval(line, dict(names)))
        except Exception as error:
            told = f"raises {type(error).__name__}: {error}"
        print(repr((line, told)))


def events(path: Path) -> None:
    import htcondor2

    for event in htcondor2.JobEventLog(str(path)).events(0):
        data = {name: repr(event[name]) for name in sorted(event, key=str.lower)}
        print(repr((repr(event), data)))


if __name__ == "__main__":
    kind, file = sys.argv[1], Path(sys.argv[2])
    if kind == "events":
        events(file)
    elif kind == "submit":
        import htcondor2

        evaluate(file, {"S": htcondor2.Submit})
    else:
        import classad2

        evaluate(file, {"classad": classad2, "datetime": datetime, "pickle": pickle, "Path": Path})
