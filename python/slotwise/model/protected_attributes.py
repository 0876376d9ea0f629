"""Attributes of jobs that are the access point's own, in lower case: nobody else sets them, or few do."""

from __future__ import annotations

from slotwise.model.ownership import OWNER_ATTRIBUTES

#: Attributes that nobody edits.
NEVER_EDITED = OWNER_ATTRIBUTES | frozenset(
    (
        "clusterid",
        "jobsetid",
        "procid",
        "mytype",
        "targettype",
        "jobuniverse",
        "globaljobid",
        "jobstatus",
    )
)
#: Attributes that only the schedd and queue superusers set.
OWN = frozenset(
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
        "scheduler",
    )
)
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
#: Attributes that no transform of the administrator changes, in lower case.
NOT_TRANSFORMED = (NEVER_EDITED | OWN | COUNTED) - {"jobuniverse", "scheduler"}
