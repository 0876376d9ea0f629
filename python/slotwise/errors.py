"""Every error that Slotwise raises on purpose.

One root, :class:`SlotwiseError`; each subclass has a stable ``code`` for programs, and may carry a ``hint``, the
remedy in a sentence. Messages may change between releases, codes do not. ClassAd ``UNDEFINED`` and ``ERROR`` are
values, and "no match" is a reason: neither is ever raised.
"""

from __future__ import annotations

from typing import ClassVar


class SlotwiseError(Exception):
    """Root of all errors raised on purpose.

    :param message: what is wrong, with the place (file, line, attribute, host).
    :param hint: what to do about it, or None.
    """

    code = "error"
    #: Name of the gRPC status this error travels as.
    status = "INTERNAL"
    #: Attributes that it carries besides message and hint; they travel with it between processes.
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if not self.hint:
            return self.message
        # A message of several lines ends with a place and its caret: the remedy gets a line of its own.
        return f"{self.message}\n  hint: {self.hint}" if "\n" in self.message else f"{self.message} ({self.hint})"


class UsageError(SlotwiseError):
    """The words of a command or call are off: unknown option, missing argument, bad value."""

    code = "usage"
    status = "INVALID_ARGUMENT"


class AdSyntaxError(SlotwiseError, ValueError):
    """Text is not a ClassAd expression or ad. ``line`` and ``column`` count from 1."""

    code = "ad_syntax"
    status = "INVALID_ARGUMENT"
    fields = ("line", "column", "source")

    def __init__(
        self, message: str, *, hint: str | None = None, line: int = 1, column: int = 1, source: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.line = line
        self.column = column
        self.source = source


class AdBatchError(SlotwiseError, ValueError):
    """Bytes are not a batch of ads, or of a newer format, or hold more than a table takes."""

    code = "ad_batch"
    status = "INVALID_ARGUMENT"


class ConfigError(SlotwiseError):
    """The configuration is refused. ``origin`` is ``file:line`` or empty."""

    code = "config"
    status = "FAILED_PRECONDITION"
    fields = ("origin", "key")

    def __init__(self, message: str, *, hint: str | None = None, origin: str = "", key: str = "") -> None:
        super().__init__(f"{origin}: {message}" if origin else message, hint=hint)
        self.origin = origin
        self.key = key


class SubmitError(SlotwiseError):
    """A submit description is refused; nothing was queued."""

    code = "submit"
    status = "INVALID_ARGUMENT"
    fields = ("origin", "key")

    def __init__(self, message: str, *, hint: str | None = None, origin: str = "", key: str = "") -> None:
        super().__init__(f"{origin}: {message}" if origin else message, hint=hint)
        self.origin = origin
        self.key = key


class NotFoundError(SlotwiseError):
    """No such job, slot, claim, submitter or daemon."""

    code = "not_found"
    status = "NOT_FOUND"


class InUseError(SlotwiseError):
    """It cannot be removed while something goes by it."""

    code = "in_use"
    status = "FAILED_PRECONDITION"


class StaleClaimError(SlotwiseError):
    """The claim was replaced or given back; a fresh match is needed."""

    code = "stale_claim"
    status = "ABORTED"


class DeniedError(SlotwiseError):
    """The caller may not do this."""

    code = "denied"
    status = "PERMISSION_DENIED"


class UnauthenticatedError(DeniedError):
    """The call carried no token, or one that is not valid here."""

    code = "unauthenticated"
    status = "UNAUTHENTICATED"


class BusyError(SlotwiseError):
    """Try again later; a limit is reached or the daemon drains."""

    code = "busy"
    status = "RESOURCE_EXHAUSTED"
    fields = ("retry_after_s",)

    def __init__(self, message: str, *, hint: str | None = None, retry_after_s: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class PeerUnavailableError(SlotwiseError):
    """The other daemon does not answer."""

    code = "unavailable"
    status = "UNAVAILABLE"


class HostError(SlotwiseError):
    """The host refused something: a cgroup file, a mount, a device. ``path`` and ``errno`` name it."""

    code = "host"
    status = "FAILED_PRECONDITION"
    fields = ("path", "errno")

    def __init__(self, message: str, *, hint: str | None = None, path: str = "", errno: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.errno = errno


class InvariantError(SlotwiseError):
    """A rule that must always hold does not: a defect in Slotwise."""

    code = "invariant"
    status = "INTERNAL"


class CycleInputError(SlotwiseError):
    """A negotiation cycle was given a job, request or submitter that lacks what it needs; names it."""

    code = "cycle_input"
    status = "INVALID_ARGUMENT"
