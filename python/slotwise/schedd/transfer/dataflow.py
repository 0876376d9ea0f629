"""``skip_if_dataflow``: a job whose results are newer than all that they are made of need not run."""

from __future__ import annotations

import os
from collections.abc import Iterable

from msgspec import Struct

from slotwise.classad import ClassAd
from slotwise.schedd.user_files.owner_rights import FileOwner, as_owner
from slotwise.transfer.lists import input_list, is_null, split_list


class DataflowFiles(Struct, frozen=True):
    """What a job is made of and what it makes, all at the access point. ``needed`` must be there."""

    owner: FileOwner
    fallback_account: str
    needed: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def dataflow_files(ad: ClassAd, owner: FileOwner, fallback_account: str) -> DataflowFiles:
    """The files from a job's ad: executable and standard input, inputs that are no URLs, and the outputs it lists."""

    def text(name: str) -> str:
        found = ad.eval(name) if name in ad else None
        return found if isinstance(found, str) else ""

    def placed(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(os.path.join(text("Iwd"), name) for name in names)

    standard = () if is_null(text("In")) else (text("In"),)
    return DataflowFiles(
        owner,
        fallback_account,
        placed((text("Cmd"), *standard)),
        placed(name for name in input_list(text) if "://" not in name),
        placed(split_list(text("TransferOutput"))),
    )


def is_up_to_date(files: DataflowFiles) -> bool:
    """Whether the oldest output is newer than the newest input (HTCondor's ``IsDataflowJob``). Blocks.

    A missing output, executable or standard input means that it is not; other inputs that are missing do not count.
    """
    with as_owner(files.owner, files.fallback_account):
        made = [_changed_ns(path) for path in files.outputs]
        needed = [_changed_ns(path) for path in files.needed]
        others = [_changed_ns(path) for path in files.inputs]
    known_made, known_needed = _known(made), _known(needed)
    if not made or len(known_made) < len(made) or len(known_needed) < len(needed):
        return False
    return min(known_made) > max(known_needed + _known(others))


def _changed_ns(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def _known(times: Iterable[int | None]) -> list[int]:
    return [time for time in times if time is not None]
