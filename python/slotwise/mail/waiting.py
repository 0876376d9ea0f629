"""Mails that wait to be sent: whose turn is next, and which is discarded where too many wait. No I/O."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from slotwise.mail.message import Mail


class _Waiting(Struct):
    """The mails about one user's jobs, the oldest first, and the length of their texts."""

    mails: deque[Mail] = field(default_factory=deque)
    length: int = 0


class WaitingMails:
    """Users take turns, so that whoever has many mails keeps those of others waiting for one of his at a time."""

    def __init__(self) -> None:
        self._of: dict[str, _Waiting] = {}
        self._count = 0
        self._length = 0

    def __len__(self) -> int:
        return self._count

    def put(self, mail: Mail, whose: str, most: int, longest: int) -> int:
        """Have a mail wait; returns how many are discarded for it, perhaps itself: the latest of the user who has most.

        :param whose: the user whose jobs it is about; empty: it is the pool's.
        :param most: the most mails that may wait.
        :param longest: the most characters in their texts.
        """
        self._append(mail, whose)
        discarded = 0
        while self._count > most or (self._length > longest and self._count > 1):
            if self._count > most:
                crowded = max(self._of, key=lambda user: len(self._of[user].mails))
            else:
                crowded = max(self._of, key=lambda user: self._of[user].length)
            self._drop_latest(crowded)
            discarded += 1
        return discarded

    def take(self) -> Mail:
        """The next mail to send. There is one."""
        whose = next(iter(self._of))
        theirs = self._of.pop(whose)
        mail = theirs.mails.popleft()
        self._count_out(theirs, mail)
        if theirs.mails:
            self._of[whose] = theirs  # behind all others
        return mail

    def _append(self, mail: Mail, whose: str) -> None:
        theirs = self._of.setdefault(whose, _Waiting())
        theirs.mails.append(mail)
        theirs.length += len(mail.body)
        self._count += 1
        self._length += len(mail.body)

    def _drop_latest(self, whose: str) -> None:
        theirs = self._of[whose]
        self._count_out(theirs, theirs.mails.pop())
        if not theirs.mails:
            del self._of[whose]

    def _count_out(self, theirs: _Waiting, mail: Mail) -> None:
        theirs.length -= len(mail.body)
        self._count -= 1
        self._length -= len(mail.body)
