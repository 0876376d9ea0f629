"""Turns errors of the native language into :class:`ConfigError` and :class:`SubmitError`."""

from __future__ import annotations

from slotwise.errors import ConfigError, SubmitError


def _parts(error: ValueError) -> tuple[str, str, str, str, str]:
    """Code, message, origin, key and hint of an error that the native module raised."""
    if len(error.args) != 6:
        return "config", str(error), "", "", ""
    code, message, file, line, key, hint = error.args
    origin = f"{file}:{line}" if file and line else str(file)
    return str(code), str(message), origin, str(key), str(hint)


def config_error(error: ValueError) -> ConfigError:
    """The error to raise for a rejected configuration."""
    code, message, origin, key, hint = _parts(error)
    made = ConfigError(message, hint=hint or None, origin=origin, key=key)
    made.code = code
    return made


def submit_error(error: ValueError) -> SubmitError:
    """The error to raise for a rejected submit description."""
    code, message, origin, key, hint = _parts(error)
    made = SubmitError(message, hint=hint or None, origin=origin, key=key)
    made.code = code
    return made
