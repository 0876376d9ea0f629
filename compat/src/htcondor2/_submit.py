"""``Submit`` and ``SubmitResult``: submit descriptions as mappings, over :mod:`slotwise.submit`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

from classad2 import ClassAd
from slotwise import submit as language
from slotwise.client import Schedd as Client
from slotwise.client import SubmitResult as Submitted
from slotwise.errors import SlotwiseError, SubmitError

from htcondor2 import _from_dag, _pool
from htcondor2._enums import SubmitMethod
from htcondor2._errors import HTCondorException

_QUEUE = re.compile(r"queue(\s+|$)", re.IGNORECASE)
_COUNT = re.compile(r"\s*\d+\b\s*")


class Submit(MutableMapping[str, str]):
    """A submit description: commands and their values as text, and one queue statement.

    Commands cannot be removed: the empty text has no effect.
    """

    def __init__(
        self,
        input: str | dict[str, Any] | None = None,
        queue: str | None = None,
        **kwargs: str,
    ) -> None:
        """From a description's text, or from a dictionary of commands; ``queue`` are the arguments of its statement.

        :raises ValueError: the text is not a submit description.
        """
        self._statements: dict[str, tuple[str, str]] = {}
        self._queue: str | None = None
        self._items: tuple[tuple[str, ...], tuple[tuple[str, ...], ...]] | None = None
        self._method = int(SubmitMethod.PythonBindings)
        if isinstance(input, dict):
            for key, value in input.items():
                if not isinstance(key, str):
                    raise TypeError("key must be a string")
                if key.casefold() == "queue":
                    raise ValueError("the queue statement can not be specified in a dictionary")
                self[key] = _text(value)
        elif isinstance(input, str):
            self._read(input)
        elif input is not None:
            raise TypeError("input must be a dictionary mapping string to strings, a string, or None")
        self.update(kwargs)
        if queue is not None:
            if not isinstance(queue, str):
                raise TypeError("queue must be a string")
            self.setQArgs(queue)

    def _read(self, text: str) -> None:
        try:
            found = language.outline(text)
        except SubmitError as error:
            raise ValueError(str(error)) from error
        for key, raw, _ in found.statements:
            self._statements[key.lower()] = (key, raw)
        self._queue = None if found.queue is None else found.queue.strip()
        if self._queue is not None and self._queue.endswith("(") and found.items is not None:
            self._items = (found.variables, found.items)

    def __getitem__(self, key: str) -> str:
        return self._statements[_name(key).lower()][1] if _name(key).lower() in self._statements else _missing(key)

    def __setitem__(self, key: str, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError("value must be a string")
        name = _name(key)
        known = self._statements.get(name.lower())
        self._statements[name.lower()] = (known[0] if known else name, value)

    def __delitem__(self, key: str) -> None:
        raise NotImplementedError(
            "Submit object keys can not be removed, but the empty string is defined to have no effect."
        )

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in list(self._statements.values()))

    def __len__(self) -> int:
        return len(self._statements)

    def __str__(self) -> str:
        return self._commands() + (f"queue {self._queue}\n" if self._queue else "queue\n")

    def __repr__(self) -> str:
        return f"Submit({self})"

    def _commands(self) -> str:
        return "".join(_statement(key, value) for key, value in self._statements.values())

    def expand(self, attr: str) -> str:
        """The value of a command with its macros expanded.

        :raises KeyError: there is no such command.
        :raises HTCondorException: its macros cannot be expanded.
        """
        if not isinstance(attr, str):
            raise TypeError("attr must be a string")
        wanted = _name(attr).lower()
        try:
            found = language.outline(self._commands()).statements
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error
        for key, _, expanded in found:
            if key.lower() == wanted:
                if expanded is None:
                    raise HTCondorException(f"cannot expand the macros of {attr}")
                return expanded
        raise KeyError(attr)

    def jobs(self, *_: object, **__: object) -> Any:
        """Not implemented, as in HTCondor's module."""
        raise NotImplementedError("Let us know what you need this for.")

    procs = jobs

    def getQArgs(self) -> str:
        """The arguments of the queue statement; empty when it has none."""
        return self._queue or ""

    def setQArgs(self, args: str) -> None:
        """Replace the arguments of the queue statement; the word queue may stand before them."""
        if not isinstance(args, str):
            raise TypeError("args must be a string")
        self._queue = _QUEUE.sub("", args, count=1) if _QUEUE.match(args) else args
        self._items = None

    def itemdata(self, qargs: str | None = None) -> Iterator[dict[str, str]] | None:
        """The items of the queue statement (or of the one that is given), a dictionary each; None without items.

        :raises ValueError: the statement or its items cannot be read.
        """
        if qargs is None and self._items is not None:
            variables, items = self._items
        else:
            arguments = self._queue if qargs is None else _QUEUE.sub("", qargs, count=1)
            if not arguments:
                return None
            try:
                found = language.outline(self._commands(), queue_args=arguments)
            except SlotwiseError as error:
                raise ValueError(str(error)) from error
            if found.items is None:
                return None
            variables, items = found.variables, found.items
        return iter([dict(zip(variables, item, strict=False)) for item in items])

    def setSubmitMethod(self, method_value: int = -1, allow_reserved_values: bool = False) -> None:
        """Set JobSubmitMethod of the jobs; negative: none."""
        if 0 <= int(method_value) < 100 and not allow_reserved_values:
            raise ValueError("Submit method value must be 100 or greater, or allowed_reserved_values must be True.")
        self._method = int(method_value)

    def getSubmitMethod(self) -> int:
        """JobSubmitMethod of the jobs."""
        return self._method

    @staticmethod
    def from_dag(filename: str, options: dict[str, int | bool | str] | None = None) -> Submit:
        """The description of the job that drives a DAG by HTCondor's `condor_dagman`; FILENAME.condor.sub has it, too.

        :raises HTCondorException: the file or condor_dagman is not there, an option is unknown, or files of a former
            run are in the way.
        """
        if options is not None and not isinstance(options, dict):
            raise TypeError("options must be a dict")
        return Submit(_from_dag.description(filename, options or {}))

    @staticmethod
    def from_dag_options() -> None:
        """Print the names of the options that :meth:`from_dag` takes."""
        sys.stdout.write("\n".join(_from_dag.names()) + "\n")

    def issue_credentials(self) -> str | None:
        """See at this host's access point that the tokens are there that the jobs need, and have those made that it
        signs itself. None: there are no pages on which a user fetches one.

        :raises HTCondorException: one is not there, or the description is wrong.
        """
        try:
            read = language.parse(f"{self._commands()}\nqueue 1\n", filename="", check_files=False)
        except SlotwiseError as error:
            raise HTCondorException(str(error)) from error
        needed, requests = (read.clusters[0].ad.get(name) for name in ("OAuthServicesNeeded", "OAuthRequests"))
        with _pool.calling("the schedd"):
            _pool.client(Client).check_credentials(str(needed or ""), str(requests or ""))
        return None

    def description(self, count: int, itemdata: Any, queue: str | None) -> str:
        """The whole text that is submitted, with the queue statement that the arguments make."""
        return self._commands() + "\n" + self._statement_text(count, itemdata, queue)

    def _statement_text(self, count: int, itemdata: Any, queue: str | None) -> str:
        if queue is not None:
            if count or itemdata is not DEFAULT_ITEMS:
                raise ValueError("queue and count/itemdata are mutually exclusive")
            return f"queue {_QUEUE.sub('', queue, count=1)}\n"
        if count < 0:
            raise ValueError("invalid Queue statement")
        number = f"{count} " if count else ""
        if itemdata is None:
            return f"queue {number}\n"
        if itemdata is not DEFAULT_ITEMS:
            return _with_items(iter(itemdata), number)
        arguments = self._queue or ""
        if count:
            arguments = number + _COUNT.sub("", arguments, count=1)
        if self._items is None:
            return f"queue {arguments}\n"
        lines = "".join("\x1f".join(item) + "\n" for item in self._items[1])
        return f"queue {arguments}\n{lines})\n"


#: The items of the description itself are meant.
DEFAULT_ITEMS = object()


def _with_items(items: Iterator[str | dict[str, str]], number: str) -> str:
    first = next(items, None)
    if first is None:
        raise ValueError("itemdata is empty")
    if isinstance(first, str):
        return f"queue {number}item from (\n{''.join(_line(item) for item in (first, *items))})\n"
    if not isinstance(first, dict):
        raise TypeError("itemdata must be a list of strings or dictionaries")
    if any(not isinstance(key, str) for key in first):
        raise TypeError("itemdata dictionaries must have string keys")
    keys = list(first)
    rows = ("\x1f".join(item.get(key, "") for key in keys) for item in _dictionaries((first, *items)))
    return f"queue {number}{','.join(keys)} from (\n{''.join(_line(row) for row in rows)})\n"


def _dictionaries(items: Iterable[str | dict[str, str]]) -> Iterator[dict[str, str]]:
    for item in items:
        if not isinstance(item, dict):
            raise TypeError("itemdata must be a list of strings or dictionaries")
        yield item


def _line(item: object) -> str:
    if not isinstance(item, str):
        raise TypeError("itemdata must be a list of strings or dictionaries")
    if "\n" in item:
        raise ValueError("itemdata strings must not contain newlines")
    return item + "\n"


def _name(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("key must be a string")
    return f"MY.{key[1:]}" if key.startswith("+") else key


def _missing(key: str) -> str:
    raise KeyError(key)


def _text(value: object) -> str:
    if isinstance(value, ClassAd):
        return repr(value)
    if isinstance(value, bool | int | float | Path):
        return str(value)
    if not isinstance(value, str):
        raise TypeError("value must be a string")
    return value


def _statement(key: str, value: str) -> str:
    if "\n" not in value:
        return f"{key} = {value}\n"
    tag = "end"
    while f"@{tag}" in value:
        tag += "_"
    return f"{key} @={tag}\n{value}\n@{tag}\n"


class SubmitResult:
    """What a submission queued."""

    def __init__(self, cluster: int, num_procs: int, ad: ClassAd, spooled: Submitted | None) -> None:
        self._cluster, self._num_procs, self._clusterad, self._spooled = cluster, num_procs, ad, spooled

    def cluster(self) -> int:
        """The cluster id."""
        return self._cluster

    def clusterad(self) -> ClassAd:
        """What all jobs of the cluster share."""
        return self._clusterad

    def first_proc(self) -> int:
        """The proc id of the first job."""
        return 0

    def num_procs(self) -> int:
        """How many jobs there are."""
        return self._num_procs

    def __str__(self) -> str:
        return f"Submitted {self._num_procs} jobs into cluster {self._cluster},0 :\n{self._clusterad}"

    def __repr__(self) -> str:
        return (
            f"SubmitResult(cluster={self._cluster}, first_proc=0, num_procs={self._num_procs}, "
            f"clusterad={self._clusterad})"
        )

    def __int__(self) -> int:
        return self._cluster
