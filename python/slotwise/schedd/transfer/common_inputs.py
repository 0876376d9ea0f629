"""The input files that a job has in common with others: what they are now, and the plans of both parts of a transfer.

A host that has them is not sent them again. It knows them by a digest of all that a transfer would find, so that a file
that was changed, replaced or touched since is sent anew.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from slotwise.schedd.transfer.files import FilePlan, check_iwd, sources
from slotwise.schedd.user_files.owner_rights import as_owner
from slotwise.transfer import depth


class CommonAnswer(Enum):
    """What a starter answers to an offer of common inputs: as in ``CommonInputsAnswer`` of the protocol."""

    OWN = 0
    SEND = 1
    WAIT = 2
    PLACED = 3


class CommonInputs(Struct, frozen=True):
    """The common inputs of a job as they are at a moment."""

    digest: str
    size: int
    files: int = 0


def common_part(plan: FilePlan) -> FilePlan:
    """The plan of the transfer of common inputs alone."""
    return replace(plan, executable="", stdin="", proxy="", spooled="", checkpoints="", inputs=plan.common)


def own_part(plan: FilePlan, found: CommonInputs) -> FilePlan:
    """The plan of the transfer of all other inputs. The limit on input counts the common ones wherever they are: it is
    not to depend on which job came first."""
    left = max(0.0, plan.max_input_mib - found.size / 1048576) if plan.max_input_mib >= 0 else plan.max_input_mib
    common = set(plan.common)
    return replace(plan, inputs=tuple(name for name in plan.inputs if name not in common), max_input_mib=left)


def survey(plan: FilePlan, user: str) -> CommonInputs:
    """What the common inputs are now, with the owner's rights. Blocks.

    :raises OSError: when one cannot be looked at.
    :raises TransferError: when the initial directory cannot.
    """
    digest, size, files = hashlib.sha256(), 0, 0
    with as_owner(plan.owner, plan.fallback_account):
        check_iwd(plan.iwd)
        digest.update(repr((user, plan.common_scope, plan.iwd, plan.common)).encode("utf-8", "surrogateescape"))
        for path, name, _ in sources(common_part(plan)):
            for place, state in _files(path, name):
                dates = (state.st_mtime_ns, state.st_ctime_ns)
                facts = (place, state.st_dev, state.st_ino, state.st_mode, state.st_size, dates)
                digest.update(repr(facts).encode("utf-8", "surrogateescape"))
                if stat.S_ISREG(state.st_mode):
                    size, files = size + state.st_size, files + 1
    return CommonInputs(digest.hexdigest(), size, files)


def _files(path: str, name: str) -> Iterator[tuple[str, os.stat_result]]:
    """All that goes with a file or directory, in the order in which it goes."""
    state = os.stat(path)
    yield name, state
    if stat.S_ISDIR(state.st_mode) and not depth.is_too_deep(name):
        for entry in sorted(os.listdir(path)):
            below = os.path.join(path, entry)
            if not os.path.islink(below) or not os.path.isdir(below):  # such a link is refused when it is sent
                yield from _files(below, os.path.join(name, entry))
