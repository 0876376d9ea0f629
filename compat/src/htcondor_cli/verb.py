"""What can be done to a noun: making an instance does it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar


class Verb(ABC):
    """``options``: the arguments of each option, by its name, as ``ArgumentParser.add_argument`` takes them."""

    options: ClassVar[Mapping[str, Mapping[str, object]]] = {}

    @abstractmethod
    def __init__(self, logger: logging.Logger | None, **options: object) -> None: ...
