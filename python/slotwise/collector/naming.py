"""What may be the name of an ad: tools print names in rows and columns, and other ads and jobs quote them.

HTCondor's collector takes any string. A name with a line end, a blank or nothing in it makes a row of ``status`` look
like another machine's, and ``#`` stands between a submitter and its access point alone, so ads with such names are
refused, whoever sends them. Those that HTCondor's daemons make have none: ``host``, ``slot1_1@host``,
``slot1@name@host``, ``name@host``, ``name@``, and of submitters ``group.user@domain#name@host``. No I/O.
"""

from __future__ import annotations

from slotwise.collector.ownership import HOST_NAMED
from slotwise.table import PackKeys

#: Characters of a name at most: host names have 255, and names of daemons a part or two before that.
LONGEST = 1024
#: Kinds of the ads of daemons besides those that are named after their hosts, in lower case.
_OF_DAEMONS = HOST_NAMED | {"negotiator", "collector", "defrag", "rooster"}
#: Attributes that name an ad, or what it belongs to, and are printed as such.
_NAMES = ("Name", "Machine", "ScheddName")


def misnamings(kind: str, pack: PackKeys, *, by_administrator: bool = False) -> dict[str, str]:
    """Why ads of a pack have names that are none, by key; those that are named well are not in it.

    A change of an ad that the collector does not have is answered with a question for the whole ad.

    :param pack: has the attributes :data:`~slotwise.collector.ownership.NAMING` of its ads.
    :param by_administrator: whoever sends them may describe machines, by hand, whose Machine is any text on one line.
    """
    known = kind.lower()
    is_daemon = known in _OF_DAEMONS
    found: dict[str, str] = {}
    is_submitter = known == "submitter"

    def fault(name: str) -> str | None:
        parts = name.split("#", 1) if is_submitter else [name]
        return next((why for part in parts if (why := _fault(part, is_daemon=is_daemon))), None)

    for key in pack.whole:
        if (why := fault(key)) is not None:
            found[key] = f"the name {_shown(key)} {why}"
    for attribute in _NAMES:
        for key, said in pack.said[attribute]:
            # What is computed is a matter of whose ad it is.
            if said is None:
                continue
            any_text = by_administrator and attribute == "Machine"
            why = _fault(said, is_daemon=False) if any_text else fault(said)
            if why is not None:
                found.setdefault(key, f"{attribute} = {_shown(said)} {why}")
    return found


def _fault(name: str, *, is_daemon: bool) -> str | None:
    """What is wrong with a name; None when nothing is.

    :param is_daemon: of a daemon or its submitters; other ads may have blanks inside their names.
    """
    if not name.strip():
        return "is empty"
    if len(name) > LONGEST:
        return f"has more than {LONGEST} characters"
    if not name.isprintable():
        return "has line ends, control characters or characters that no terminal shows"
    if not is_daemon:
        return "begins or ends with a blank" if name != name.strip() else None
    if any(character.isspace() for character in name):
        return "has a blank"
    if "#" in name:
        return "has a #"
    return "has nothing before its @" if name.startswith("@") else None


def _shown(name: str) -> str:
    """A name as a message may quote it."""
    return ascii(name if len(name) <= 100 else f"{name[:100]}...")
