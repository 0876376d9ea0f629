"""Words, answers and error numbers of the Chirp protocol (version 2). Pure.

A request is a line of words; a backslash keeps the character behind it. An answer is a line with a number, below zero
for an error, and for some requests data behind it.
"""

from __future__ import annotations

import errno

#: The longest request line, bytes.
LINE = 1024
NOT_AUTHENTICATED, NOT_AUTHORIZED = -1, -2
TOO_BIG, INVALID, TOO_MANY_OPEN, TRY_AGAIN, BAD_FD, UNKNOWN = -5, -8, -9, -11, -12, -127
_ERRORS = {
    errno.EACCES: NOT_AUTHORIZED, errno.EPERM: NOT_AUTHORIZED, errno.EROFS: NOT_AUTHORIZED, errno.ENOENT: -3,
    errno.EEXIST: -4, errno.EFBIG: TOO_BIG, errno.ENAMETOOLONG: TOO_BIG, errno.ENOSPC: -6, errno.EDQUOT: -6,
    errno.ENOMEM: -7, errno.EINVAL: INVALID, errno.ENFILE: TOO_MANY_OPEN, errno.EMFILE: TOO_MANY_OPEN,
    errno.EBUSY: -10, errno.ETXTBSY: -10, errno.EAGAIN: TRY_AGAIN, errno.ETIMEDOUT: TRY_AGAIN, errno.EBADF: BAD_FD,
    errno.EISDIR: -13, errno.ENOTDIR: -14, errno.ENOTEMPTY: -15, errno.EXDEV: -16,
}  # fmt: skip


def error_answer(number: int) -> int:
    """The protocol's number for an errno."""
    return _ERRORS.get(number, UNKNOWN)


def words(line: bytes) -> list[str]:
    """The words of a request line (without its end)."""
    found: list[str] = []
    word: list[str] | None = None
    kept = False
    for char in line.decode("utf-8", "surrogateescape"):
        if kept:
            word = [*(word or []), char]
            kept = False
        elif char == "\\":
            kept = True
        elif char in " \t\r":
            if word is not None:
                found.append("".join(word))
            word = None
        else:
            word = [*(word or []), char]
    return found if word is None else [*found, "".join(word)]


def quoted(word: str) -> str:
    """A word as it is written in a request."""
    return "".join(f"\\{char}" if char in "\\ \t\n\r" else char for char in word)


def open_flags(letters: str) -> tuple[bool, bool, bool, bool, bool, bool] | None:
    """Read, write, append, truncate, create, exclusive; None for letters that mean nothing."""
    if not set(letters) <= set("rwatcxs"):
        return None
    writes = bool(set(letters) & set("wa"))
    return "r" in letters or not writes, writes, "a" in letters, "t" in letters, "c" in letters, "x" in letters
