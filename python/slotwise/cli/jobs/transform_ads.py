"""``slotwise transform-ads``: ads as transforms change them, to try rules before an access point applies them.

Source: manual page of condor_transform_ads: options, rules files, and what TRANSFORM iterates over.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from slotwise.cli.common import classad_host
from slotwise.cli.common.options import Option, Parsed, parse
from slotwise.errors import ConfigError, NotFoundError, UsageError

if TYPE_CHECKING:
    from slotwise._native import TransformRules
    from slotwise.classad import ClassAd
    from slotwise.cli.common.invocation import Invocation
    from slotwise.config import Config
    from slotwise.transform import Transforms

_OPTIONS = [
    *(Option(name, least) for name, least in (("help", 1), ("long", 1), ("json", 2), ("xml", 3), ("verbose", 1))),
    Option("rules", 1, 1),
    Option("jobtransforms", 4, 1),
    Option("jobroute", 4, 1),
    Option("in", 1, 1),
    Option("out", 1, 1),
]
USAGE = """usage: slotwise transform-ads RULES [options] [KEY=VALUE ...] FILE ...
  -rules FILE            statements of a transform; - is standard input, config://KNOB a knob. A file of macros only is
                         where a later -jobtransforms finds its transforms first
  -jobtransforms NAMES   the JOB_TRANSFORM_* of the configuration that NAMES lists
  -jobroute NAMES        the JOB_ROUTER_ROUTE_* that NAMES lists
  -in[:FORM] FILE        ads to transform, as FILE does, in this form
  -out[:FORM,nosort] FILE  write to FILE; - is standard output
  -long -json -xml       form of both; FORM is one of long, json, xml, new, auto
  -verbose               say on standard error which statements are carried out
  KEY=VALUE              a macro that is set before the rules are read
Statements are SET, EVALSET, DEFAULT, COPY, RENAME, DELETE, EVALMACRO, REQUIREMENTS, NAME, UNIVERSE, macros, if, and at
the end TRANSFORM [N] [VARS] [in|from|matching ...], which makes several ads of each."""
_FORMS = {"long": "old", "json": "json", "xml": "xml", "new": "new", "auto": "auto"}


def main(args: list[str], inv: Invocation) -> int:
    """Transform ads; 0 when every statement could be carried out, else 1."""
    parsed = parse(args, _OPTIONS)
    if parsed.has("help"):
        inv.out(USAGE)
        return 0
    if inv.called and not any(parsed.has(name) for name in ("rules", "jobtransforms", "jobroute")):
        from slotwise.cli.common import htcondor_words

        htcondor_words.usage(inv)
        return 1
    variables = [_variable(word) for word in parsed.words if "=" in word]
    inputs = [(given.values[0], given.letters) for given in parsed.all("in")]
    inputs += [(word, "") for word in parsed.words if "=" not in word]
    from slotwise.config import load

    config = load(subsystem="XFORM", env=inv.env, home=inv.home, cwd=inv.cwd)
    transforms = _transforms(parsed, inv, config)
    if not inputs:
        raise UsageError("there is nothing to transform", hint="name a file of ads, or - for standard input")
    with classad_host.answering(inv, "XFORM"):
        return _Run(inv, parsed, transforms, config, variables).all(inputs)


def _variable(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    name = name.strip()
    return (f"MY.{name[1:]}" if name.startswith("+") else name), value.strip()


def _transforms(parsed: Parsed, inv: Invocation, config: Config) -> Transforms:
    from slotwise.transform import Transforms, read_rules

    found: list[TransformRules] = []
    macros: dict[str, str] = {}
    for given in parsed.options:
        value = given.values[0] if given.values else ""
        if found and found[-1].iterates is not None and given.name in ("rules", "jobtransforms", "jobroute"):
            raise UsageError(
                f"no transform can follow {found[-1].name}, which iterates", hint="give it as the last one"
            )
        if given.name == "rules" and not value.startswith("config://"):
            rules = read_rules(value, _text(inv, value, "rules"))
            if rules.is_config:
                macros.update((name.upper(), text) for name, text in rules.assignments())
            else:
                found.append(rules)
            continue
        if given.name == "rules":
            knob, _, listed = value.removeprefix("config://").partition("/")
            knobs = [knob % name for name in listed.replace(",", " ").split()] if listed else [knob]
        elif given.name in ("jobtransforms", "jobroute"):
            family = "JOB_TRANSFORM" if given.name == "jobtransforms" else "JOB_ROUTER_ROUTE"
            knobs = [f"{family}_{name}" for name in value.replace(",", " ").split()]
        else:
            continue
        for knob in knobs:
            text = macros.get(knob.upper()) or config.raw(knob)
            if not text or not text.strip():
                raise NotFoundError(
                    f"{knob} is not defined", hint="define it in the configuration, or give a file that does"
                )
            found.append(read_rules(knob, text, str(config.origin(knob) or "")))
    if not found:
        raise UsageError("no transform rules", hint="give -rules FILE or -jobtransforms NAMES")
    return Transforms(found, config)


def _text(inv: Invocation, name: str, what: str) -> str:
    if name == "-":
        return inv.stdin.read()
    try:
        return Path(inv.path(name)).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise NotFoundError(f"cannot read the {what} {name}: {error.strerror}") from None


class _Run:
    """One call: where ads come from, and where they go."""

    def __init__(
        self,
        inv: Invocation,
        parsed: Parsed,
        transforms: Transforms,
        config: Config,
        variables: list[tuple[str, str]],
    ) -> None:
        from slotwise.transform import rows

        self._inv = inv
        self._transforms = transforms
        self._variables = variables
        self._verbose = parsed.has("verbose")
        both = next((name for name in ("json", "xml", "long") if parsed.has(name)), "")
        self._form_in = both or "auto"
        given = parsed.all("out")
        words = given[-1].letters.split(",") if given else []
        self._sorted = "nosort" not in words
        named = [word for word in words if word and word != "nosort"]
        self._form = _form(named[-1]) if named else _form(both or "long")
        self._to = given[-1].values[0] if given else "-"
        self._rows = rows(
            transforms.rules[-1],
            config,
            variables=variables,
            cwd=str(inv.cwd),
            environment=inv.env,
            seed=secrets.randbits(63),
        )
        self._failed = False
        self._told: set[str] = set()

    def all(self, inputs: list[tuple[str, str]]) -> int:
        """Transform the ads of all inputs, and write them."""
        made = (ad for name, form in inputs for ad in self._of_file(name, form or self._form_in))
        if self._to == "-":
            for text in self._texts(made):
                self._inv.out(text, end="")
        else:
            with Path(self._inv.path(self._to)).open("w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(self._texts(made))
        return 1 if self._failed else 0

    def _of_file(self, name: str, form: str) -> Iterator[ClassAd]:
        from slotwise.classad import parse_ads

        if self._verbose:
            self._inv.err(f"# Applying transforms to ads from {name}")
        text = _text(self._inv, name, "ads of")
        format_ = _form(form)
        if self._form == "auto":
            self._form = _guessed(text) if format_ == "auto" else format_
        for number, ad in enumerate(parse_ads(text, format=format_), start=1):  # type: ignore[arg-type]
            if self._verbose:
                self._inv.err(f"#   Ad {number}")
            yield from self._of_ad(ad)

    def _of_ad(self, ad: ClassAd) -> Iterator[ClassAd]:
        variables = self._variables
        for row in self._rows:
            if row.step == 0:  # the ads of one item go on with each other's macros, as in HTCondor
                variables = self._variables
            try:
                done = self._transforms.apply(
                    ad,
                    now=int(time.time()),
                    seed=secrets.randbits(63),
                    variables=variables,
                    row=row,
                    explain=self._verbose,
                )
            except ConfigError as error:
                self._failed = True
                self._inv.err(f"ERROR: {error}")
                return
            variables = done.variables
            if self._verbose:
                for at, name in enumerate(self._transforms.names):
                    self._inv.err(f"#   Transform {name}{'' if at in done.applied else ' Skipped'}")
            for step in done.steps:
                self._inv.err(step)
            for problem in done.problems:
                self._failed = True
                self._inv.err(f"ERROR: {problem}")
            for doubt in done.doubts:
                if doubt not in self._told:  # once, and not for every ad
                    self._told.add(doubt)
                    self._inv.err(f"WARNING: {doubt}")
            yield done.ad

    def _texts(self, ads: Iterator[ClassAd]) -> Iterator[str]:
        first = True
        before, between, after = {
            "json": ("[\n", ",\n", "]\n"),
            "xml": (
                '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n',
                "",
                "</classads>\n",
            ),
            "new": ("{\n", ",\n", "}\n"),
        }.get(self._form, ("", "", ""))
        for ad in ads:
            yield before if first else between
            first = False
            yield self._text_of(ad)
        if not first:
            yield after

    def _text_of(self, ad: ClassAd) -> str:
        if self._form == "old":  # always in order, as in HTCondor
            return "".join(one.print_old() for one in _by_name(ad)) + "\n"
        parts = _by_name(ad) if self._sorted and len(ad) else [ad]
        match self._form:
            case "json":
                return "{\n" + ",\n".join(one.print_json()[2:-2] for one in parts) + "\n}\n"
            case "xml":
                return "<c>\n" + "".join(one.print_xml()[4:].removesuffix("</c>\n") for one in parts) + "</c>\n"
        return "[ " + "; ".join(repr(one)[2:-2] for one in parts) + " ]\n"


def _by_name(ad: ClassAd) -> list[ClassAd]:
    """An ad of its own for each attribute, in order of the names: an ad with several is printed in an order of its
    own."""
    from slotwise.classad import ClassAd

    return [ClassAd({name: ad.lookup(name)}) for name in sorted(ad, key=str.lower)]


def _form(word: str) -> str:
    if word not in _FORMS:
        raise UsageError(f"{word!r} is not a form of ads", hint="long, json, xml, new or auto")
    return _FORMS[word]


def _guessed(text: str) -> str:
    start = text.lstrip()[:1]
    return {"[": "new", "{": "json", "<": "xml"}.get(start, "old")


__all__ = ["main"]
