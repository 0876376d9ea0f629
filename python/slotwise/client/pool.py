"""The pool that a client talks to, and how it reads descriptions."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from slotwise.client import messages
from slotwise.client.messages import Description
from slotwise.config import Config, load
from slotwise.errors import SubmitError
from slotwise.home import PoolHome
from slotwise.submit import Submission, parse
from slotwise.wire import address
from slotwise.wire.credential import Metadata, TokenCredential, UserCredential
from slotwise.wire.token import find_token


class Pool:
    """What both clients know of their pool."""

    def __init__(self, home: str | Path | None, token: str | None, env: Mapping[str, str] | None) -> None:
        self.env = dict(os.environ if env is None else env)
        if home is not None:
            self.env["SLOTWISE_HOME"] = str(home)
        self.home = PoolHome.from_env(self.env).require_trusted()
        self._credential = (
            UserCredential(self.env, lambda: find_token(self.home, self.env, lambda: self.config))
            if token is None
            else TokenCredential(token)
        )
        self.target = address.lookup(self.home, "schedd").local
        self._config: Config | None = None
        try:
            self.owner = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            self.owner = self.env.get("USER", "")

    def metadata(self) -> Metadata:
        """What the caller shows to the schedd, with each call.

        :raises DeniedError: when a token could be read on its way.
        """
        return self._credential.metadata(self.target)

    @property
    def config(self) -> Config:
        """The configuration that submissions read."""
        if self._config is None:
            self._config = load(subsystem="SUBMIT", env=self.env, home=self.home)
        return self._config

    def read(self, description: Description, count: int | None, first_cluster: int = 0) -> Submission:
        """The submission that a description makes.

        :raises SubmitError: for a description that makes no jobs, or that is wrong.
        """
        text, queue = messages.text(description, count)
        submission = parse(
            text,
            filename="<python>",
            cwd=os.getcwd(),  # noqa: PTH109 - many times a second
            env=self.env,
            config=self.config,
            queue_args=queue,
            check_support=True,
            owner=self.owner,
            first_cluster=first_cluster or None,
        )
        if not submission.count:
            raise SubmitError("no jobs queued", hint="give a count, or a queue statement")
        return submission
