"""The tokens of a job at its execution point: files in a directory beside its own that its account alone may read.

The directory (_CONDOR_CREDS) is not in the scratch directory, so that no token becomes an output, a checkpoint or a
manifest's line. Files are replaced whole: whoever reads one reads the former token or the new one.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from slotwise.errors import UsageError
from slotwise.execution.keeper_spec import Identity
from slotwise.starter.enforcement.privilege import rights_of
from slotwise.starter.job.directories import RunDirectory
from slotwise.starter.transfer.transfer import replace_file

_NAME = re.compile(r"[A-Za-z0-9_+=-][A-Za-z0-9_.+=-]*\.use")


def put(directory: RunDirectory, files: Mapping[str, bytes], identity: Identity) -> None:
    """Write tokens, by the names of their files.

    :raises OSError: when the file system refuses.
    :raises UsageError: when a name is not that of a token.
    """
    for name in files:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not the name of a token's file", hint="the access point sent it")
    place = directory.credentials
    if not place.is_dir():
        place.mkdir(mode=0o700)
        if identity.owner is not None:
            os.chown(place, *identity.owner, follow_symlinks=False)
    with rights_of(identity):
        if stat.S_IMODE(place.stat(follow_symlinks=False).st_mode) != 0o700:
            place.chmod(0o700)
    for name, token in files.items():
        replace_file(place, name, token, identity)
