"""HTCondor's evaluator in a process of its own: it may crash, and its modes are set when it is loaded.

Run as a script it reads cases as JSON lines and writes what HTCondor makes of each. ``answers`` feeds it and
starts it again behind a case it crashed on.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any


def answers(cases: Sequence[dict[str, Any]], *, strict: bool = False) -> Iterator[dict[str, Any] | None]:
    """HTCondor's answer to each case, in order; None where it crashed."""
    done = 0
    while done < len(cases):
        mode = ["strict"] if strict else []
        worker = subprocess.Popen(
            [sys.executable, __file__, *mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TZ": "UTC"},
        )
        feeder = threading.Thread(target=_feed, args=(worker, cases[done:]), daemon=True)
        feeder.start()
        assert worker.stdout is not None
        try:
            for line in worker.stdout:
                yield json.loads(line)
                done += 1
        finally:
            worker.kill()  # does nothing to one that is done; one that is not has a reader who gave up
            feeder.join()
            worker.stdout.close()
            worker.wait()
        if done < len(cases):
            yield None
            done += 1


def _feed(worker: subprocess.Popen[bytes], cases: Sequence[dict[str, Any]]) -> None:
    assert worker.stdin is not None
    lines = b"".join(json.dumps(case).encode() + b"\n" for case in cases)
    with contextlib.suppress(OSError):  # it crashed; the reader notices
        worker.stdin.write(lines)
        worker.stdin.flush()
    with contextlib.suppress(OSError):
        worker.stdin.close()


def _kind(classad2: Any, value: Any) -> tuple[str, str | None]:
    """Type and text of a value; no text where the printed expression tells it better."""
    if value is classad2.Value.Undefined:
        return "undefined", "undefined"
    if value is classad2.Value.Error:
        return "error", "error"
    if isinstance(value, bool):
        return "boolean", str(value).lower()
    if isinstance(value, int):
        return "integer", str(value)
    if isinstance(value, float):
        return "real", repr(value)
    if isinstance(value, str):
        return "string", value
    if isinstance(value, datetime.datetime):
        return "abstime", None
    return ("list", None) if isinstance(value, list) else ("classad", repr(value))


def _parses(classad2: Any, text: str) -> bool:
    try:
        classad2.unquote(text)
    except ValueError as error:
        return "Invalid string" not in str(error)
    except Exception:
        return True
    return True


def _evaluated(classad2: Any, case: dict[str, Any]) -> dict[str, Any]:
    try:
        expr = classad2.ExprTree(case["expr"])
    except Exception:
        return {"parse_error": True}
    if not _parses(classad2, case["expr"]):
        return {"parse_error": True}
    text = repr(expr)
    my = classad2.ClassAd(case["my"]) if case.get("my") else classad2.ClassAd()
    ads = (my, classad2.ClassAd(case["target"])) if case.get("target") else (my,)
    try:
        name, value = _kind(classad2, expr.eval(*ads))
        if value is None:
            value = repr(expr.simplify(*ads))
    except Exception:
        return {"raised": True, "unparse": text}
    return {"type": name, "value": value, "unparse": text}


def _read(classad2: Any, case: dict[str, Any]) -> dict[str, Any]:
    kinds = {"new": "New", "old": "Old", "auto": "Auto", "json": "JSON", "xml": "XML"}
    try:
        if case["format"] == "new1":
            found = [classad2.ClassAd(case["text"])]
        else:
            found = list(classad2.parseAds(case["text"], getattr(classad2.ParserType, kinds[case["format"]])))
    except Exception:
        return {"parse_error": True}
    try:
        return {"ads": [_printed(ad) for ad in found]}
    except UnicodeDecodeError:
        return {"unprintable": True}


def _serve() -> None:
    if "strict" in sys.argv:
        os.environ["_CONDOR_STRICT_CLASSAD_EVALUATION"] = "true"
    import classad2
    import htcondor2  # noqa: F401  (loading it selects the normal mode and registers functions)

    for line in sys.stdin:
        case = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, 3)  # some texts are read for ever; the process ends then
        told = _read(classad2, case) if "format" in case else _evaluated(classad2, case)
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def _printed(ad: Any) -> dict[str, Any]:
    forms = {"new": repr(ad), "old": ad.printOld(), "json": ad.printJson(), "pretty": str(ad)}
    return {"attrs": {name: repr(ad.lookup(name)) for name in ad.keys()}, **forms}  # noqa: SIM118 (it is not a dict)


if __name__ == "__main__":
    _serve()
