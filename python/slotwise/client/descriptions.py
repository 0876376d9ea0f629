"""Reads submit descriptions (text, or statements as a mapping) with the submitter's configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from slotwise.config import Config, load
from slotwise.errors import SubmitError
from slotwise.home import PoolHome
from slotwise.submit import Submission, parse

#: The text of a submit description, or its statements.
Description: TypeAlias = "str | Mapping[str, object]"


@dataclass(frozen=True)
class ReadOptions:
    """How a description is read.

    :param spool: its files travel with the submission (``submit -spool``).
    :param method: JobSubmitMethod of its jobs; below 0: that of submissions from Python.
    :param elsewhere: it is another's: no file or variable of this process is looked at.
    :param one_cluster: a second queue statement is an error.
    :param check_files: its program and input files must be there already; else the run finds out.
    :param name: what messages call it, before the number of the line.
    :param directory: where its relative names start; "": the process's directory.
    :param before: statements that stand before it.
    :param append: statements that stand before its queue statement.
    :param single: why it may make one job only; "": it may make any number.
    :param knobs: values of knobs that count instead of those of the configuration.
    :param at_least_one: without a queue statement, or with one that makes none, it makes one job.
    """

    spool: bool = False
    method: int = -1
    one_cluster: bool = False
    elsewhere: bool = False
    check_files: bool = True
    name: str = "<python>"
    directory: str = ""
    before: Sequence[str] = ()
    append: Sequence[str] = ()
    at_least_one: bool = False
    single: str = ""
    knobs: Mapping[str, str] = field(default_factory=dict)


#: Input files stay where they are.
USUAL = ReadOptions()


class DescriptionReader:
    """Reads descriptions for one pool and one account."""

    def __init__(self, home: PoolHome, env: Mapping[str, str], owner: str) -> None:
        self._home = home
        self._env = env
        self._owner = owner
        self._config: Config | None = None
        #: The configuration with the knobs that were given last, and these.
        self._special: tuple[Mapping[str, str], Config] | None = None

    @property
    def config(self) -> Config:
        """The configuration that submissions read, loaded on first use."""
        if self._config is None:
            self._config = load(subsystem="SUBMIT", env=self._env, home=self._home)
        return self._config

    def _config_of(self, options: ReadOptions) -> Config:
        if not options.knobs:
            return self.config
        if self._special is None or self._special[0] != options.knobs:
            own = {f"_CONDOR_{name}": value for name, value in options.knobs.items()}
            config = load(subsystem="SUBMIT", env={**self._env, **own}, home=self._home)
            self._special = dict(options.knobs), config
        return self._special[1]

    def read(
        self, description: Description, count: int | None, first_cluster: int = 0, options: ReadOptions = USUAL
    ) -> Submission:
        """The submission that a description makes.

        :raises SubmitError: the description makes no jobs, or is wrong.
        """
        text, queue = text_of(description, count)
        submission = self._parse(text, queue, first_cluster, options)
        if not submission.count and options.at_least_one:
            submission = self._parse(text, "1", first_cluster, options)
        if not submission.count:
            raise SubmitError("no jobs queued", hint="give a count, or a queue statement")
        if options.one_cluster and len(submission.clusters) > 1:
            raise SubmitError("the description has several queue statements", hint="submit each on its own")
        if options.single and submission.count > 1:
            raise SubmitError(options.single, hint=f"it makes {submission.count} jobs")
        return submission

    def _parse(self, text: str, queue: str | None, first_cluster: int, options: ReadOptions) -> Submission:
        method = [f"MY.JobSubmitMethod = {options.method}"] if options.method >= 0 else []
        return parse(
            text,
            filename=options.name,
            cwd=options.directory or os.getcwd(),  # noqa: PTH109 - many times a second
            env=self._env,
            config=self._config_of(options),
            queue_args=queue,
            before=[*method, *options.before],
            append=options.append,
            check_support=True,
            spool=options.spool,
            check_files=options.check_files,
            elsewhere=options.elsewhere,
            owner=self._owner,
            first_cluster=first_cluster or None,
        )


def text_of(description: Description, count: int | None) -> tuple[str, str | None]:
    """The text of a description, and the queue statement's arguments unless the text has them."""
    if isinstance(description, str):
        return description, str(count) if count is not None else None
    lines = [f"{key} = {_word(value)}" for key, value in description.items()]
    return "\n".join(lines) + "\n", str(1 if count is None else count)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
