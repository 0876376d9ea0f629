"""Which attributes of jobs users and transforms may set, and the values of edits. Pure.

Manual: IMMUTABLE_JOB_ATTRS, PROTECTED_JOB_ATTRS, SECURE_JOB_ATTRS and their SYSTEM_ forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from slotwise.classad import ClassAd, ExprTree
from slotwise.config import Config
from slotwise.errors import AdSyntaxError, DeniedError, UsageError
from slotwise.model.protected_attributes import COUNTED, NEVER_EDITED, OWN
from slotwise.schedd.jobs.ads import plain
from slotwise.schedd.jobs.values import Changes, Expr

#: What a submission may set for jobs that start on hold.
_SUBMITTED_HELD = frozenset(("jobstatus", "holdreasoncode"))
#: Attributes that no job of a submission may set for itself, in lower case: they are laid over the ad of its cluster.
_NOT_SUBMITTED = (NEVER_EDITED | OWN | COUNTED) - _SUBMITTED_HELD


def check_submitted(names: Iterable[str]) -> None:
    """Check that jobs of a submission do not set attributes of the schedd's (``names``: those that they set).

    :raises UsageError: naming the attributes.
    """
    refused = sorted({name for name in names if name.lower() in _NOT_SUBMITTED}, key=str.lower)
    if refused:
        raise UsageError(
            f"a job may not set {', '.join(refused)}", hint="the access point gives these attributes; leave them out"
        )


class AttributeLocks(Struct, frozen=True):
    """The attributes that the configuration locks besides those that are always locked; names in lower case.

    ``immutable``: nobody edits them once the job is in the queue. ``protected``: only queue superusers edit them.
    ``secure``: only the schedd sets them; submissions and transforms that do are refused, or with ``ignores_secure``
    lose them.
    """

    immutable: frozenset[str] = frozenset()
    protected: frozenset[str] = frozenset()
    secure: frozenset[str] = frozenset()
    ignores_secure: bool = True

    @classmethod
    def read(cls, config: Config) -> AttributeLocks:
        """The lists of the configuration."""

        def names(kind: str) -> frozenset[str]:
            lists = (config.get_list(f"{prefix}{kind}_JOB_ATTRS") for prefix in ("", "SYSTEM_"))
            return frozenset(name.lower() for each in lists for name in each)

        ignores = config.get_bool("IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS")
        # Where projects have records, those count and limit the jobs of the project that these were submitted to.
        fixed = frozenset(("projectname",) if config.find_bool("PERSISTENT_PROJECT_RECORDS") else ())
        return cls(names("IMMUTABLE") | fixed, names("PROTECTED"), names("SECURE"), ignores)

    def insecure(self, names: Iterable[str]) -> set[str]:
        """Those of ``names`` that only the schedd sets, to be left out of a submission or a transform.

        :raises DeniedError: when IGNORE_ATTEMPTS_TO_SET_SECURE_JOB_ATTRS is off and there are any.
        """
        found = {name for name in names if name.lower() in self.secure}
        if found and not self.ignores_secure:
            raise DeniedError(
                f"Attempt to set secure attribute {', '.join(sorted(found, key=str.lower))}",
                hint="the access point gives the attributes of SECURE_JOB_ATTRS; leave them out",
            )
        return found

    def checked(self, texts: Mapping[str, str], *, superuser: bool) -> Changes:
        """The values of an edit's texts.

        :raises UsageError: for an attribute that may not be edited, or a name that is not valid.
        :raises AdSyntaxError: for text that is not an expression.
        """
        changes: Changes = {}
        for name, text in texts.items():
            if not name.replace("_", "").isalnum() or name[0].isdigit():
                raise UsageError(f"{name!r} is not an attribute name")
            lower = name.lower()
            for kind, locked in (("immutable", self.immutable | NEVER_EDITED), ("secure", self.secure)):
                if lower in locked:
                    raise UsageError(f'Update of {kind} attribute "{name}" is not allowed.')
            if not superuser and (lower in OWN or lower in self.protected):
                hint = "PROTECTED_JOB_ATTRS: queue superusers may" if lower in self.protected else None
                raise UsageError(f"the attribute {name} may not be changed", hint=hint)
            try:
                tree = ExprTree(text)
            except AdSyntaxError as error:
                raise AdSyntaxError(f"{name}: {error.message}", hint=error.hint) from None
            value = plain(literal_of(tree))
            changes[name] = value if value is not None else Expr(text)
        return changes


def literal_of(tree: ExprTree) -> object:
    """The value of a literal, else None."""
    ad = ClassAd()
    ad["X"] = tree
    value = ad["X"]
    return None if isinstance(value, ExprTree) else value
