"""How much longer than usual tests wait: SLOTWISE_TEST_PATIENCE, a factor, for slow (emulated) hosts."""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("SLOTWISE_TEST_PATIENCE", "1"))
