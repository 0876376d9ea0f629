"""What is most likely not meant in jobs that can be queued: requests without a value, and more than any slot has.

HTCondor queues such jobs in silence, and they wait for ever. Nothing here refuses a job: machines may join the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from slotwise.classad import ClassAd, ExprTree

#: Requests, the submit commands that make them, the slots' attribute, and the unit of people.
_REQUESTS = (
    ("RequestCpus", "request_cpus", "Cpus", "cores"),
    ("RequestMemory", "request_memory", "Memory", "MiB of memory"),
    ("RequestDisk", "request_disk", "Disk", "KiB of disk"),
    ("RequestGPUs", "request_gpus", "GPUs", "GPU(s)"),
)
#: What a slot has in all, be it carved up or not.
SLOT_ATTRIBUTES = tuple(name for _, _, resource, _ in _REQUESTS for name in (resource, f"TotalSlot{resource}"))


class Asked(Struct, frozen=True):
    """The plain amounts that a job asks for, by request; those given by expressions are not among them."""

    amounts: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of_job(cls, job: ClassAd) -> Asked:
        """The amounts of one job."""
        found = {}
        for request, _, _, _ in _REQUESTS:
            value = job.get(request)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[request] = float(value)
        return cls(found)


def without_value(job: ClassAd) -> list[str]:
    """Warnings about requests of a job that have no value when it is queued: no slot satisfies what is undefined."""
    found = []
    for request, command, _, _ in _REQUESTS:
        tree = job.get(request)
        if not isinstance(tree, ExprTree) or isinstance(job.eval(request), int | float):
            continue
        read = tree.references()
        if read.target:
            continue  # a slot gives it its value
        names = ", ".join(name for name in (*read.my, *read.bare) if name not in job)
        why = f": nothing defines {names}" if names else ""
        found.append(
            f"{command} = {tree} has no value{why}; a job that asks for it suits no slot "
            f"(amounts are numbers with or without a unit, as 2, 512M or 4G)"
        )
    return found


def largest(slots: Iterable[ClassAd]) -> dict[str, float]:
    """The most that one slot of the pool has of each resource, by request."""
    most = {request: 0.0 for request, _, _, _ in _REQUESTS}
    for slot in slots:
        for request, _, resource, _ in _REQUESTS:
            for name in (resource, f"TotalSlot{resource}"):
                value = slot.get(name)
                if isinstance(value, int | float) and not isinstance(value, bool):
                    most[request] = max(most[request], float(value))
    return most


def beyond(jobs: Sequence[Asked], most: Mapping[str, float]) -> list[str]:
    """Warnings about amounts that no slot has, ``most`` being the largest amount of a slot by request."""
    found = []
    for request, command, _, unit in _REQUESTS:
        wanted = max((asked.amounts.get(request, 0.0) for asked in jobs), default=0.0)
        if wanted > most.get(request, 0.0):
            found.append(
                f"no slot of the pool has {wanted:.0f} {unit} ({command}); the largest has {most.get(request, 0.0):.0f}"
            )
    return found


def fits_condition(asked: Asked) -> str:
    """The condition, over slots, of having all these amounts at once or once their jobs have ended."""
    parts = []
    for request, _, resource, _ in _REQUESTS:
        if request in asked.amounts:
            amount = f"{asked.amounts[request]:.0f}"
            own = f"{resource} >= {amount}"
            parts.append(f"({own} || TotalSlot{resource} >= {amount})" if asked.amounts[request] > 0 else "true")
    return " && ".join(parts) or "true"
