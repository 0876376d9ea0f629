"""Submissions that were checked and are not durable yet: limits count their jobs, and senders may send them again."""

from __future__ import annotations

import asyncio

from slotwise.schedd.submission.submissions import Submission


class UnderwaySubmissions:
    """The jobs that are being committed, by user, and the keys of their submissions."""

    def __init__(self) -> None:
        self._jobs: dict[str, int] = {}
        self._keys: dict[tuple[str, bytes], asyncio.Event] = {}

    def add(self, submission: Submission) -> None:
        """A submission was checked and is about to be committed."""
        self._jobs[submission.user] = self._jobs.get(submission.user, 0) + submission.count
        if submission.key:
            self._keys[submission.sender, submission.key] = asyncio.Event()

    def settle(self, submission: Submission) -> None:
        """A submission is durable, or was refused."""
        if (settled := self._keys.pop((submission.sender, submission.key), None)) is not None:
            settled.set()
        left = self._jobs.get(submission.user, 0) - submission.count
        if left > 0:
            self._jobs[submission.user] = left
        else:
            self._jobs.pop(submission.user, None)

    def jobs_of(self, user: str) -> int:
        """How many jobs of a user are being committed."""
        return self._jobs.get(user, 0)

    @property
    def users(self) -> set[str]:
        """The users whose submissions are being committed."""
        return set(self._jobs)

    def jobs(self) -> int:
        """How many jobs are being committed."""
        return sum(self._jobs.values())

    async def settled(self, sender: str, key: bytes) -> None:
        """Wait until the submission with this key, if it is being committed, is durable or refused."""
        if (settled := self._keys.get((sender, key))) is not None:
            await settled.wait()
