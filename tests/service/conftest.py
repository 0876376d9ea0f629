"""What tests of services share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slotwise.table import limit_evaluations

from tests.support.polling import polling_stays

__all__ = ["limited", "polling_stays"]


@pytest.fixture
def limited() -> Iterator[None]:
    """As in a daemon."""
    limit_evaluations()
    yield
    limit_evaluations(1 << 40, None)
