"""``htcondor NOUN VERB ...``: finds noun and verb, reads the verb's options, and runs it.

The status is 0 when it is done, 1 when it failed, and 2 when the words of the call are wrong.
"""

from __future__ import annotations

import logging
import re
from argparse import Namespace
from collections.abc import Iterable

from slotwise.cli.common.invocation import Invocation
from slotwise.cli.common.parser import Parser
from slotwise.cli.htcondor import credential, daemons, dag, eventlog, job, jobset, refused, snake
from slotwise.cli.htcondor.verb import Call, Noun
from slotwise.errors import SlotwiseError, UsageError
from slotwise.release import CONDOR_VERSION

NOUNS: dict[str, Noun] = {
    "dag": dag.NOUN,
    "job": job.NOUN,
    "jobset": jobset.NOUN,
    "eventlog": eventlog.NOUN,
    "credential": credential.NOUN,
    "server": daemons.SERVER,
    "ap": daemons.AP,
    "ep": daemons.EP,
    "cm": daemons.CM,
    "ocu": refused.OCU,
    "snake": snake.NOUN,
    "annex": refused.ANNEX,
}
_DETAIL = re.compile(r"-[vq]+|--verbose|--quiet")


def main(args: list[str], inv: Invocation) -> int:
    """Run one verb."""
    words, level = list(args), logging.INFO
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-h", "-help", "--help"):
            inv.out(usage())
            return 0
        if word in ("-V", "--version"):
            inv.out(CONDOR_VERSION)
            return 0
        if not _DETAIL.fullmatch(word):
            return _refuse(inv, usage(), f"unrecognized arguments: {word}")
        letters = word[2] if word.startswith("--") else word
        level += 10 * (letters.count("q") - letters.count("v"))
    if not words:
        return _refuse(inv, usage())
    if (noun := NOUNS.get(words[0])) is None:
        return _refuse(inv, usage(), _not_one_of(words[0], NOUNS))
    if len(words) == 1:
        return _refuse(inv, usage_of(words[0]))
    if words[1] in ("-h", "-help", "--help"):
        inv.out(usage_of(words[0]))
        return 0
    if words[1] not in noun.verbs:
        return _refuse(inv, usage_of(words[0]), _not_one_of(words[1], noun.verbs))
    return _run(words[0], words[1], words[2:], Call(inv, min(logging.CRITICAL, max(logging.DEBUG, level))))


def _run(noun: str, name: str, words: list[str], call: Call) -> int:
    verb = NOUNS[noun].verbs[name]
    options: Namespace | None = Namespace(words=words)
    if verb.arguments is not None:
        parser = Parser(call.inv, "htcondor", verb.help)
        parser.prog = f"htcondor {noun} {name}"
        verb.arguments(parser)
        try:
            options = parser.take(words)
        except UsageError as error:
            return _refuse(call.inv, error.hint or "", error.message)
    if options is None:
        return 0
    given = {option: value for option, value in vars(options).items() if option != "help"}
    call.debug(f"Attempting to run {noun} {name} with options {given}")
    try:
        verb.run(options, call)
    except (SlotwiseError, OSError) as error:
        call.error(f"Error while trying to run {noun} {name}:\n{error}")
        return 1
    return 0


def _refuse(inv: Invocation, text: str, why: str = "") -> int:
    inv.err(text)
    if why:
        inv.err(f"\n{why}")
    return 2


def _not_one_of(word: str, known: Iterable[str]) -> str:
    return f"invalid choice: {word!r} (choose from {', '.join(map(repr, known))})"


def usage() -> str:
    """The nouns."""
    lines = [
        f"usage: htcondor [-h] [-v] [-V] [-q] {{{','.join(NOUNS)}}} ...",
        "",
        "A tool for managing HTCondor jobs and resources.",
        "",
        "options:",
        "  -h, --help     show this text; behind a noun its verbs, behind a verb its options",
        "  -v, --verbose  print more",
        "  -V, --version  print the version and exit",
        "  -q, --quiet    print less: once answers only as far as they are files, three times nothing of failures",
        "",
        "nouns:",
        *(f"  {name:<10}  {noun.help}" for name, noun in NOUNS.items()),
    ]
    return "\n".join(lines)


def usage_of(name: str) -> str:
    """The verbs of a noun."""
    noun = NOUNS[name]
    width = max(map(len, noun.verbs))
    lines = [f"usage: htcondor {name} [-h] {{{','.join(noun.verbs)}}} ...", "", noun.help, "", "verbs:"]
    return "\n".join(lines + [f"  {verb:<{width}}  {about.help}" for verb, about in noun.verbs.items()])
