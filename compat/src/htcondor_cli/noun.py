"""What can be managed: a class with a class for each of its verbs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from htcondor_cli.verb import Verb


class Noun(ABC):
    """A kind of thing; its verbs are classes in it."""

    def __init__(self) -> None:
        raise RuntimeError("a noun has no instances")

    @classmethod
    @abstractmethod
    def verbs(cls) -> list[type[Verb]]:
        """Its verbs, in the order of the help."""
