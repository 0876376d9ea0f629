"""How fast a core is: integer and floating-point kernels, run once after the start and whenever RunBenchmarks says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from statistics import fmean

from slotwise._native import float_benchmark, integer_benchmark
from slotwise.startd.fingerprint import Attributes

#: Weight of the former result in the average: a single disturbed run must not mark a machine as slow.
_FORMER = 0.75
#: Seconds of a slice: a startd that ends, or a slot that is claimed, waits for no more than this.
SLICE_S = 0.05


def read(
    wanted: Collection[str] = ("Mips", "KFlops"), seconds: float = 1.0, *, given_up: Callable[[], bool] = lambda: False
) -> Attributes | None:
    """Mips (VAX MIPS of a Dhrystone-like loop) and KFlops (LU factorization), each measured for ``seconds``.

    ``given_up`` is asked every twentieth of a second or sooner; None once it is true.
    """
    kernels = {"Mips": integer_benchmark, "KFlops": float_benchmark}
    slices = max(1, round(seconds / SLICE_S))
    found = Attributes()
    for name, kernel in kernels.items():
        if name not in wanted:
            continue
        rates: list[float] = []
        for _ in range(slices):
            if given_up():
                return None
            rates.append(kernel(seconds / slices))
        found[name] = int(fmean(rates))
    return found


def averaged(former: Attributes, latest: Attributes) -> Attributes:
    """The weighted average of the former result, where there is one, and the latest."""
    return {
        name: int(_FORMER * float(former[name]) + (1 - _FORMER) * float(value)) if name in former else value
        for name, value in latest.items()
    }
