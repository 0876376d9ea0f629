"""``classad_eval``: expressions evaluated in the context of ads, word by word, as HTCondor's command does it."""

from __future__ import annotations

from slotwise.classad import ClassAd, ExprTree
from slotwise.classad.machine import keep_debug_lines, take_debug_lines
from slotwise.cli.common.invocation import Invocation
from slotwise.errors import AdSyntaxError

_USAGE = """usage: classad_eval [options] AD|ASSIGNMENT|EXPRESSION...

The words are taken one after the other, options among them. An ad in the new syntax or an assignment adds to the
context; an expression is evaluated in it, and the context is shown before where it has changed.

  -file, -my-file FILE   the context is the ad of a file, in the new syntax
  -target-file FILE      the ad that TARGET means, and where names are looked up that the context lacks
  -quiet                 do not show the context from here on
  -debug                 show what debug() tells
  -help                  show this, and end"""
_BAD_OPTION = 255


class _UnreadableError(Exception):
    """A word or a file is neither an ad nor an expression."""


def main(args: list[str], inv: Invocation) -> int:
    """Take the words in their order; the exit status is HTCondor's: 1 for what is unreadable, 255 for bad options."""
    my, target = ClassAd(), None
    quiet, shown = False, False
    words = iter(args)
    try:
        for word in words:
            if word == "-quiet":
                quiet = True
            elif word == "-debug":
                keep_debug_lines(True)
            elif word == "-help":
                inv.out(_USAGE)
                return _BAD_OPTION
            elif word in ("-file", "-my-file", "-target-file"):
                name = next(words, None)
                if name is None:
                    inv.err(f"classad_eval: {word} requires an argument")
                    return _BAD_OPTION
                ad = _of_file(name, inv)
                my, target = (my, ad) if word == "-target-file" else (ad, target)
            elif (added := _added(word)) is not None:
                my.update(added)
                shown = False
            else:
                if not (quiet or shown):
                    inv.out(repr(my))
                shown = True
                inv.out(_value(word, my, target))
                for line in take_debug_lines():
                    inv.err(line)
    except _UnreadableError as error:
        inv.err(str(error))
        return 1
    finally:
        keep_debug_lines(False)
    return 0


def _ad(text: str) -> ClassAd:
    """The first ad of a text in the new syntax, whose outer brackets may be left out.

    :raises AdSyntaxError: it is none.
    """
    try:
        return ClassAd(text)
    except AdSyntaxError as error:
        try:
            return ClassAd(f"[{text}]")
        except AdSyntaxError:
            raise error from None


def _added(word: str) -> ClassAd | None:
    """What a word adds to the context; None if it is an expression."""
    try:
        return _ad(word)
    except AdSyntaxError:
        return None


def _of_file(name: str, inv: Invocation) -> ClassAd:
    text = inv.path(name).read_text(encoding="utf-8", errors="surrogateescape")
    if text.startswith("{\n") and text.endswith("\n}\n"):  # a list of ads, as -long:new writes it
        text = text[2:]
    try:
        return _ad(text)
    except AdSyntaxError as error:
        raise _UnreadableError(f"Unable to turn file '{name}' into a ClassAd.\n{error}") from None


def _value(text: str, my: ClassAd, target: ClassAd | None) -> str:
    try:
        return str(ExprTree(text).simplify(my, target))
    except AdSyntaxError as error:
        raise _UnreadableError(f"Unable to turn '{text}' into a ClassAd or an expression.\n{error}") from None
