"""Which attributes of jobs in the queue may be changed by hand, and what the text of a change means. Pure.

Manual: IMMUTABLE_JOB_ATTRS, PROTECTED_JOB_ATTRS.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from slotwise.classad import ClassAd, ExprTree
from slotwise.errors import AdSyntaxError, UsageError
from slotwise.model.ownership import OWNER_ATTRIBUTES
from slotwise.schedd.ads import plain
from slotwise.schedd.values import Changes, Expr

#: Attributes that nobody changes by hand.
_NEVER = OWNER_ATTRIBUTES | frozenset(
    (
        "clusterid",
        "procid",
        "mytype",
        "targettype",
        "jobuniverse",
        "globaljobid",
        "jobstatus",
    )
)
#: Attributes that are the schedd's own.
_OWN = frozenset(
    (
        "x509userproxysubject",
        "x509userproxyexpiration",
        "x509userproxyemail",
        "lastjobstatus",
        "enteredcurrentstatus",
        "qdate",
        "autoclusterid",
        "numjobstarts",
        "numshadowstarts",
        "publicclaimid",
        "remotehost",
        "holdreasoncode",
        "holdreasonsubcode",
        "numholds",
        "numvacates",
    )
)


#: What may say that a job begins held, and why.
_SUBMITTED_HELD = frozenset(("jobstatus", "holdreasoncode"))
#: What the schedd counts for each job, in lower case.
COUNTED = frozenset(
    (
        "numjobstarts",
        "numjobcompletions",
        "numshadowstarts",
        "numjobmatches",
        "numholds",
        "numholdsbyreason",
        "numvacates",
        "numsystemholds",
        "jobruncount",
        "currenthosts",
        "remotewallclocktime",
        "remoteusercpu",
        "remotesyscpu",
        "cumulativeremoteusercpu",
        "cumulativeremotesyscpu",
        "cumulativesuspensiontime",
        "totalsuspensions",
        "committedtime",
        "committedsuspensiontime",
        "completiondate",
        "exitstatus",
    )
)
#: Attributes that no job of a submission may set for itself, in lower case: they are laid over the ad of its cluster.
_NOT_SUBMITTED = (_NEVER | _OWN | COUNTED) - _SUBMITTED_HELD
#: Attributes that no transform of the administrator changes, in lower case.
NOT_TRANSFORMED = (_NEVER | _OWN | COUNTED) - {"jobuniverse"}


def check_submitted(names: Iterable[str]) -> None:
    """See that jobs of a submission differ from their cluster (``names``) in nothing that is the schedd's to say.

    :raises UsageError: naming the attributes.
    """
    refused = sorted({name for name in names if name.lower() in _NOT_SUBMITTED}, key=str.lower)
    if refused:
        raise UsageError(
            f"a job may not set {', '.join(refused)}", hint="the access point gives these attributes; leave them out"
        )


@dataclass(frozen=True)
class AttributeLocks:
    """What the administrator adds to the attributes that are locked anyway; names in lower case.

    ``immutable``: not changed once set, by nobody. ``protected``: changed by queue superusers only.
    """

    immutable: frozenset[str] = frozenset()
    protected: frozenset[str] = frozenset()

    @classmethod
    def of(cls, immutable: Iterable[str], protected: Iterable[str]) -> AttributeLocks:
        """From names as they are written."""
        return cls(frozenset(name.lower() for name in immutable), frozenset(name.lower() for name in protected))

    def keep(self, ad: Container[object], changes: Changes) -> bool:
        """Whether a job with this ad must keep something that the changes concern."""
        return any(name.lower() in self.immutable and name in ad for name in changes)

    def checked(self, texts: dict[str, str], *, superuser: bool) -> Changes:
        """Attribute texts as values.

        :raises UsageError: for an attribute that may not be changed, or a name that is none.
        :raises AdSyntaxError: for text that is no expression.
        """
        changes: Changes = {}
        for name, text in texts.items():
            if not name.replace("_", "").isalnum() or name[0].isdigit():
                raise UsageError(f"{name!r} is not an attribute name")
            lower = name.lower()
            if lower in _NEVER or (not superuser and (lower in _OWN or lower in self.protected)):
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
