"""Prints what each line of a file of expressions gives with the module at hand, events of a log, or the names there."""

from __future__ import annotations

import datetime
import enum
import inspect
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


def names() -> None:
    """Each public name of the modules and of their classes, with the parameters of what can be called, and the members
    of enumerations with their values."""
    import classad2
    import htcondor2
    import htcondor2.dags
    import htcondor2.personal

    for module in (htcondor2, classad2, htcondor2.dags, htcondor2.personal):
        for name in sorted(vars(module)):
            found = getattr(module, name)
            imported = inspect.ismodule(found) or getattr(found, "__module__", "typing") in ("typing", "pathlib")
            if name.startswith("_") or (module is htcondor2.personal and imported):
                continue
            print(repr((f"{module.__name__}.{name}", parameters(found))))
            if inspect.isclass(found) and issubclass(found, enum.Enum):
                for word, member in found.__members__.items():
                    print(repr((f"{module.__name__}.{name}.{word}", repr(member.value))))
            if not inspect.isclass(found) or issubclass(found, BaseException | enum.Enum):
                continue
            for member in sorted(set(dir(found)) - set(dir(dict))):
                if not member.startswith("_"):
                    print(repr((f"{module.__name__}.{name}.{member}", parameters(getattr(found, member)))))
            if found.__init__ is not object.__init__:
                print(repr((f"{module.__name__}.{name}.__init__", parameters(found.__init__))))


def parameters(found: object) -> list[str] | str:
    """Names of parameters, ``*`` for any; of other things what they are."""
    if inspect.isclass(found) or not callable(found):
        return "name"
    try:
        asked = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return "name"
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return ["*" if one.kind in variable else one.name for one in asked if one.name != "self"]


if __name__ == "__main__":
    kind, file = sys.argv[1], Path(sys.argv[-1])
    if kind == "events":
        events(file)
    elif kind == "names":
        names()
    elif kind == "submit":
        import htcondor2

        evaluate(file, {"S": htcondor2.Submit})
    else:
        import classad2

        evaluate(file, {"classad": classad2, "datetime": datetime, "pickle": pickle, "Path": Path})
