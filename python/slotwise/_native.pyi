"""Types of the native module. Its packages wrap it in typed Python of their own."""

from typing import Any

def __getattr__(name: str) -> Any: ...
