"""Loading a driver's shared library that may not be there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable


def load_library(names: tuple[str, ...], tell: Callable[[str], None]) -> ctypes.CDLL | None:
    """The first of these shared libraries that can be loaded."""
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            tell(f"diag: cannot open {name}: {error}")
        else:
            tell(f"diag: {name} is loaded")
            return library
    return None
