"""Values of an ad as a test compares them: of the type it expects, or the test fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slotwise.classad import ClassAd


def number_of(ad: ClassAd, name: str) -> float:
    """The number that attribute ``name`` evaluates to."""
    value = ad.eval(name)
    assert isinstance(value, int | float), (name, value)
    return value


def text_of(ad: ClassAd, name: str) -> str:
    """The string that attribute ``name`` evaluates to."""
    value = ad.eval(name)
    assert isinstance(value, str), (name, value)
    return value


def texts_of(ad: ClassAd, name: str) -> list[str]:
    """The list of strings that attribute ``name`` evaluates to."""
    value = ad.eval(name)
    assert isinstance(value, list) and all(isinstance(one, str) for one in value), (name, value)
    return value


def nested_in(ad: ClassAd, name: str) -> Mapping[str, Any]:
    """The nested ad that attribute ``name`` evaluates to."""
    value = ad.eval(name)
    assert isinstance(value, Mapping), (name, value)
    return value
