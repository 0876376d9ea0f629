"""Lists of transforms: where they come from, and what they make of an ad."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from slotwise._native import (
    Transformed,
    TransformedJobs,
    TransformRules,
    transform_ad,
    transform_jobs,
    transform_rows,
)
from slotwise.classad import ClassAd
from slotwise.config import Config
from slotwise.config.refusal import config_error


class Row(Struct, frozen=True):
    """Which of the ads that an iterating transform makes of one ad."""

    row: int = 0
    step: int = 0
    #: Loop variables, in lower case.
    items: tuple[tuple[str, str], ...] = ()
    number: int = 0
    iterating: bool = False


def read_rules(name: str, text: str, origin: str = "") -> TransformRules:
    """The transform that ``text`` says; ``name`` is that of its knob or file.

    :raises ConfigError: for statements that cannot be carried out, with their line.
    """
    try:
        return TransformRules(name, text)
    except ValueError as error:
        told = config_error(error)
        if origin:
            told.message = f"{told.message} ({origin})"
        raise told from None


def rows(
    rules: TransformRules,
    config: Config | None,
    *,
    variables: Iterable[tuple[str, str]] = (),
    cwd: str,
    environment: Mapping[str, str],
    seed: int,
) -> list[Row]:
    """The ads that ``rules`` make of each ad: one, unless TRANSFORM says more.

    :raises ConfigError: when its items cannot be read.
    """
    facts = _facts(0, seed, (), variables, Row(), explain=False)
    facts |= {"cwd": cwd, "environment": list(environment.items())}
    try:
        found = transform_rows(rules, facts, config.data if config is not None else None)
    except ValueError as error:
        raise config_error(error) from None
    if rules.iterates is None:
        return [Row()]
    return [Row(row, step, tuple(items), number, True) for number, (row, step, items) in enumerate(found)]


class Transforms:
    """Transforms that are applied one after another.

    :param config: where macros are looked up that neither the transforms nor the ad define.
    """

    def __init__(self, rules: Sequence[TransformRules] = (), config: Config | None = None) -> None:
        self.rules = list(rules)
        self._data = config.data if config is not None else None

    def __bool__(self) -> bool:
        return bool(self.rules)

    @property
    def names(self) -> list[str]:
        """Their names, in order."""
        return [one.name for one in self.rules]

    def apply(
        self,
        ad: ClassAd,
        *,
        now: int,
        seed: int,
        macros: Iterable[tuple[str, str]] = (),
        variables: Iterable[tuple[str, str]] = (),
        row: Row | None = None,
        explain: bool = False,
    ) -> Transformed:
        """What they make of ``ad``, which stays as it is.

        :param macros: what the caller knows, such as ``isclusterad``; names in lower case.
        :param variables: macros that are set before the first transform.
        :raises ConfigError: for a transform that breaks off; then nothing of it counts.
        """
        facts = _facts(now, seed, macros, variables, row or Row(), explain=explain)
        try:
            return transform_ad(self.rules, ad, facts, self._data)
        except ValueError as error:
            raise config_error(error) from None

    def apply_to_jobs(
        self,
        shared: ClassAd,
        jobs: Sequence[tuple[int, int, str, ClassAd | None]],
        deltas: Sequence[ClassAd] | None,
        *,
        now: int,
        seed: int,
        macros: Iterable[tuple[str, str]] = (),
    ) -> TransformedJobs:
        """What they make of the jobs of a cluster, as :meth:`apply` of each whole ad.

        :param shared: what the jobs share.
        :param jobs: ProcId, JobStatus, GlobalJobId of each, and further attributes of it alone.
        :param deltas: in what each differs.
        :raises ConfigError: for a transform that breaks off; then nothing of it counts.
        """
        facts = _facts(now, seed, macros, (), Row(), explain=False)
        try:
            return transform_jobs(self.rules, shared, jobs, deltas, facts, self._data)
        except ValueError as error:
            raise config_error(error) from None


@lru_cache(maxsize=64)
def _utc_offset_s(now: int) -> int:
    return time.localtime(now).tm_gmtoff


def _facts(
    now: int,
    seed: int,
    macros: Iterable[tuple[str, str]],
    variables: Iterable[tuple[str, str]],
    row: Row,
    *,
    explain: bool,
) -> dict[str, object]:
    return {
        "now": now,
        "utc_offset_s": _utc_offset_s(now),
        "seed": seed,
        "macros": list(macros),
        "variables": list(variables),
        "items": list(row.items),
        "row": row.row,
        "step": row.step,
        "number": row.number,
        "iterating": row.iterating,
        "explain": explain,
    }
