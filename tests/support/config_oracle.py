"""Answers configuration cases by HTCondor: one JSON case per line in, one JSON result per line out.

Run as a program. HTCondor keeps one configuration per process and leaves the process when it refuses one, so each
case runs in a child of its own, forked from here, where HTCondor is loaded already.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from typing import Any


def as_text(value: str | int | bool | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def child(case: dict[str, Any], pipe: int) -> None:
    silence = os.open("/dev/null", os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    signal.alarm(5)
    import htcondor2

    directory = case["directory"]
    os.environ["CONDOR_CONFIG"] = f"{directory}/main"
    os.environ.update({name: value.replace("@DIR@", directory) for name, value in case.get("env", {}).items()})
    if case.get("subsystem"):
        htcondor2.set_subsystem(case["subsystem"])
    htcondor2.reload_config()
    values: dict[str, str | None] = {}
    for name in case["queries"]:
        try:
            values[name] = as_text(htcondor2.param[name]).replace(directory, "@DIR@")
        except KeyError:
            values[name] = None
    os.write(pipe, json.dumps({"values": values}).encode())


def answer(case: dict[str, Any]) -> dict[str, Any]:
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child(case, send)
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(pid, 0)
    result: dict[str, Any] = json.loads(told) if told else {"error": "refused", "signal": os.WTERMSIG(status)}
    return result


def main() -> None:
    for name in [name for name in os.environ if name.lower().startswith("_condor_")]:
        del os.environ[name]
    with tempfile.NamedTemporaryFile() as empty:
        os.environ["CONDOR_CONFIG"] = empty.name
        import htcondor2  # noqa: F401
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
