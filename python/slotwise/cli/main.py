"""Finds the subcommand, runs it, and turns errors into messages and exit statuses.

The status is 0 when it is done, 1 when it failed, and 2 when its arguments are wrong. Under HTCondor's names
(``condor_q``) usage errors give 1, too, as scripts expect; :attr:`Invocation.called` tells a command of such a name.
"""

from __future__ import annotations

import errno
import importlib
import sys
from collections.abc import Callable

from msgspec.structs import replace

from slotwise import __version__
from slotwise.cli import registry
from slotwise.cli.common import classad_host, htcondor_words
from slotwise.cli.common.invocation import Invocation
from slotwise.cli.registry import COMMANDS, CONDOR_NAMES, HTCONDOR_PREFIX
from slotwise.errors import SlotwiseError, UsageError

Main = Callable[[list[str], Invocation], int]


def command(name: str) -> Main:
    """The function of subcommand ``name``.

    :raises UsageError: when there is none.
    """
    entry = registry.find(name)
    if entry is None:
        every = (*COMMANDS, *CONDOR_NAMES)
        begin = name[: len(HTCONDOR_PREFIX) + 2] if name.startswith(HTCONDOR_PREFIX) else name[:2]
        near = [known for known in every if known.startswith(begin)]
        hint = f"did you mean {', '.join(near)}?" if near else "`slotwise help` lists the commands"
        raise UsageError(f"there is no command {name!r}", hint=hint)
    module, _, function = entry.module.partition(":")
    found: Main = getattr(importlib.import_module(module), function)
    return found


def dispatch(argv: list[str], inv: Invocation) -> int:
    """Run the subcommand that ``argv`` names and return its exit status."""
    if len(argv) == 2 and argv[0] == "help":
        return dispatch([argv[1], "--help"], inv)
    if not argv or argv[0] in ("help", "--help", "-h", "-help"):
        inv.out(overview())
        return 0 if argv else 2
    called = argv[0] if registry.is_htcondors(argv[0]) else ""
    if argv[0] in ("--version", "-version", "version"):
        inv.out(f"slotwise {__version__}")
        return 0
    if argv[1:] in (["-version"], ["--version"]) and called not in htcondor_words.WITHOUT_VERSION:
        return dispatch(
            [f"{HTCONDOR_PREFIX}version"] if called and called != f"{HTCONDOR_PREFIX}version" else argv[1:], inv
        )
    inv = replace(inv, called=called)
    try:
        run_it = command(argv[0])
        if (status := htcondor_words.status_of_help(called, argv[1:])) is not None:
            run_it(argv[1:], replace(inv, stdout=inv.stderr))
            return status
        with classad_host.answering(inv):
            status = run_it(argv[1:], inv)
        if not called and argv[1:] in (["--help"], ["-help"], ["-h"]) and (shown := examples(argv[0])):
            inv.out(shown)
        return status
    except UsageError as error:
        if called:
            return htcondor_words.refuse(error, inv)
        inv.err(f"slotwise {argv[0]}: {error}")
        return 2
    except SlotwiseError as error:
        inv.err(htcondor_words.failure(error, inv) if called else f"ERROR: {error}")
        return 1
    except BrokenPipeError:
        return 1
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        inv.err(f"ERROR: {error.strerror or error}{place}{_remedy(error)}")
        return 1
    except KeyboardInterrupt:
        return 130
    except UnicodeEncodeError as error:  # bytes of the command line or of a file that are not text
        inv.err(f"ERROR: {error.object!r} is not UTF-8, and only UTF-8 can be sent")
        return 1
    except Exception as error:
        if (failure := _failed_call(error)) is None:
            raise
        inv.err(htcondor_words.failure(failure, inv) if called else f"ERROR: {failure}")
        return 1


def _failed_call(error: Exception) -> SlotwiseError | None:
    """The error of ours behind a call to a daemon that failed where no command expected it."""
    grpc = sys.modules.get("grpc")  # commands that call nobody do not load it
    if grpc is None or not isinstance(error, grpc.RpcError):
        return None
    from slotwise.wire.status import to_error

    return to_error(error)


def _remedy(error: OSError) -> str:
    """What to do about a failure of the system, in brackets; nothing when it says enough."""
    hints = {
        errno.ENOSPC: "the disk is full: make room",
        errno.EDQUOT: "the disk quota is used up: make room",
        errno.EROFS: "the file system is read-only",
        errno.EACCES: "this user may not do that",
        errno.EMFILE: "too many open files: raise `ulimit -n`",
    }
    hint = hints.get(error.errno or 0)
    return f" ({hint})" if hint else ""


def overview() -> str:
    """The list of subcommands."""
    width = max(len(name) for name in COMMANDS)
    lines = ["usage: slotwise COMMAND [arguments]; `slotwise COMMAND --help` explains one"]
    for heading, names in registry.GROUPS.items():
        lines += ["", heading, *(f"  {name:<{width}}  {COMMANDS[name].help}" for name in names)]
    return "\n".join(lines)


def examples(name: str) -> str:
    """Calls of a command as its help shows them; empty where there are none."""
    from slotwise.cli.examples import EXAMPLES

    rows = EXAMPLES.get(name.replace("_", "-"), ())  # as `registry.find` takes names
    width = max((len(call) for call, _ in rows), default=0)
    lines = (f"  {call:<{width}}  {what}" for call, what in rows)
    return "\nExamples\n" + "\n".join(lines) if rows else ""


def run() -> int:
    """The entry point of the console script."""
    try:
        status = dispatch(sys.argv[1:], Invocation.of_process())
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            sys.stderr.close()
    if "grpc" in sys.modules:
        from slotwise.daemon import process

        process.leave(status)
    return status


if __name__ == "__main__":
    sys.exit(run())
