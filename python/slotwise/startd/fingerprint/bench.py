"""How fast a core is: integer and floating-point kernels, run once after the start and whenever RunBenchmarks says."""

from __future__ import annotations

from collections.abc import Collection

from slotwise._native import float_benchmark, integer_benchmark
from slotwise.startd.fingerprint import Attributes

#: Weight of the former result in the average: a single disturbed run must not mark a machine as slow.
_FORMER = 0.75


def read(wanted: Collection[str] = ("Mips", "KFlops"), seconds: float = 1.0) -> Attributes:
    """Mips (VAX MIPS of a Dhrystone-like loop) and KFlops (LU factorization), each measured for ``seconds``."""
    kernels = {"Mips": integer_benchmark, "KFlops": float_benchmark}
    return {name: int(kernel(seconds)) for name, kernel in kernels.items() if name in wanted}


def averaged(former: Attributes, latest: Attributes) -> Attributes:
    """The weighted average of the former result, where there is one, and the latest."""
    return {
        name: int(_FORMER * float(former[name]) + (1 - _FORMER) * float(value)) if name in former else value
        for name, value in latest.items()
    }
