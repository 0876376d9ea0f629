"""The administrator's rules for new jobs: transforms that change them, requirements that refuse them or warn. Pure.

Manual, "condor_schedd Policy Configuration". Transforms run first, in order, each on the result of the one before; then
the requirements are evaluated, in order, and the first that is not met refuses the whole submission. MY is the schedd's
ad, TARGET the job's.

HTCondor runs every rule on every job. Here the attributes that a rule reads are known, so a cluster whose jobs are
equal in all of these is transformed and checked once; other clusters are transformed and checked in one batch each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from slotwise._native import jobs_that_fail
from slotwise.classad import ClassAd, ExprTree, SpecialValue
from slotwise.config import Config
from slotwise.errors import ConfigError, DeniedError
from slotwise.model.protected_attributes import NOT_TRANSFORMED
from slotwise.schedd.jobs.ads import native, plain
from slotwise.schedd.jobs.protected_attrs import AttributeLocks, literal_of
from slotwise.schedd.jobs.values import Expr, Value
from slotwise.schedd.submission.new_cluster import NewJobs, redescribe
from slotwise.table import Allowance
from slotwise.transform import Transformed, Transforms, knob_of, read_job_transform, rule_names

#: Attributes in which the jobs of any cluster differ; in lower case.
_EACH_JOB = frozenset(("procid", "globaljobid"))
#: The attribute with the names of those attributes of a factory's cluster that its jobs may not set for themselves.
EDITED = "EditedClusterAttrs"
#: Evaluation steps that the rules may take for one submission.
_STEPS_MOST = 20_000_000


class Requirement(Struct, frozen=True):
    """SUBMIT_REQUIREMENT_<NAME>."""

    name: str
    expression: ExprTree
    reason: ExprTree | None = None
    is_warning: bool = False

    def trees(self) -> list[ExprTree]:
        """Its expressions."""
        return [self.expression] if self.reason is None else [self.expression, self.reason]

    def fault(self, schedd: ClassAd, job: ClassAd, now: int) -> str | None:
        """Why the job does not meet it; None when it does.

        :raises DeniedError: when it evaluates to neither true nor false.
        """
        value = self.expression.eval(schedd, job, now=now)
        if isinstance(value, list | ClassAd):
            raise DeniedError(
                f"Submit requirement {self.name} failed to evaluate.",
                hint=f"SUBMIT_REQUIREMENT_{self.name} must be true or false of every job",
            )
        if isinstance(value, SpecialValue) or not isinstance(value, bool | int | float):
            raise DeniedError(
                f"Submit requirement {self.name} evaluated to non-boolean.",
                hint=f"SUBMIT_REQUIREMENT_{self.name} must be true or false of every job",
            )
        if value:
            return None
        told = self.reason.eval(schedd, job, now=now) if self.reason is not None else None
        return told if isinstance(told, str) else f"Submit requirement {self.name} not met."


class SubmitRules(Struct):
    """All rules of a schedd."""

    transforms: Transforms = field(default_factory=Transforms)
    requirements: tuple[Requirement, ...] = ()
    #: TRANSFORM_FACTORY_AND_JOB_ADS: jobs that are materialized are transformed too, not only their cluster.
    of_late_jobs: bool = True
    #: Warnings about the configuration, such as rules that are named but not defined.
    notes: tuple[str, ...] = ()
    locks: AttributeLocks = field(default_factory=AttributeLocks)

    def __bool__(self) -> bool:
        return bool(self.transforms) or bool(self.requirements)

    @classmethod
    def read(cls, config: Config) -> SubmitRules:
        """The rules that a configuration gives.

        :raises ConfigError: for a rule that is not valid.
        """
        notes: list[str] = []
        rules = []
        for name in rule_names(config, "JOB_TRANSFORM_NAMES"):
            knob = knob_of(name)
            rule = read_job_transform(config, name, str(config.origin(knob) or ""))
            if rule is None:
                notes.append(f"{knob} is not defined: the transform is left out")
                continue
            if rule.universe is not None:
                notes.append(f"{knob}: UNIVERSE has no effect in a job transform")
            if rule.iterates is not None:
                notes.append(f"{knob}: TRANSFORM with items has no effect in a job transform")
            rules.append(rule)
        requirements = []
        for name in rule_names(config, "SUBMIT_REQUIREMENT_NAMES"):
            knob = f"SUBMIT_REQUIREMENT_{name}"
            expression = config.get_escaped_expr(knob)
            if expression is None:
                notes.append(f"{knob} is not defined: the requirement is left out")
                continue
            warns = config.find_bool(f"{knob}_IS_WARNING") or False
            requirements.append(Requirement(name, expression, config.get_escaped_expr(f"{knob}_REASON"), warns))
        return cls(
            Transforms(rules, config),
            tuple(requirements),
            config.get_bool("TRANSFORM_FACTORY_AND_JOB_ADS"),
            tuple(notes),
            AttributeLocks.read(config),
        )

    # ---- on jobs

    def admit(self, new: NewJobs, schedd: ClassAd, now: int, seed: int) -> tuple[list[str], list[str]]:
        """Transform and check a new cluster. Returns warnings for its user, and lines for the log.

        :raises DeniedError: when it is refused.
        """
        with Allowance(_STEPS_MOST):
            if new.cluster.factory is not None:
                return self._cluster(new, schedd, now, seed)
            problems = self._change(new, now, seed, late=False)
            return self._judged(new, schedd, now), problems

    def materialized(self, new: NewJobs, schedd: ClassAd, now: int, seed: int) -> tuple[list[str], list[str]]:
        """Transform and check jobs that are materialized; as :meth:`admit`."""
        with Allowance(_STEPS_MOST):
            problems = self._change(new, now, seed, late=True) if self.of_late_jobs else []
            return self._judged(new, schedd, now), problems

    def _cluster(self, new: NewJobs, schedd: ClassAd, now: int, seed: int) -> tuple[list[str], list[str]]:
        """The ad of a factory's cluster, as that of its first job."""
        number = new.cluster.number
        whole = _shared(new)
        whole.update({"ProcId": 0, "JobFactoryId": number})
        done = self._transformed(whole, now, seed, cluster_ad=True, late=True)
        names = self._taken(name for name in done.changed if name.lower() not in ("procid", "jobfactoryid"))
        changed = _definitions(done.ad, names)
        if not self.of_late_jobs and names:
            known = new.submitted.get(EDITED)
            listed = [*(known.split(",") if isinstance(known, str) and known else ()), *names]
            changed[EDITED] = ",".join(dict.fromkeys(listed))
        _write_cluster(new, changed)
        redescribe(new)
        whole = _shared(new)
        whole.update({"ProcId": 0, "JobFactoryId": number})
        return _told(self._faults(schedd, whole, now)), done.problems + done.doubts

    def _change(self, new: NewJobs, now: int, seed: int, *, late: bool) -> list[str]:
        if not self.transforms or not new.jobs:
            return []
        shared = _shared(new)
        first = self._transformed(_job(new, shared, 0), now, seed, cluster_ad=False, late=late)
        if self._alike(new, first.read):
            names = self._taken(first.changed)
            if changed := _definitions(first.ad, names):
                if late:
                    _write_jobs(new, changed, shared)
                else:
                    _write_cluster(new, changed)
                redescribe(new, late=late)
            return first.problems + first.doubts
        with _as_refusals():
            done = self.transforms.apply_to_jobs(
                shared, _jobs(new), new.deltas, now=now, seed=seed, macros=_macros(cluster_ad=False, late=late)
            )
        kept = set(done.changed).difference(self._taken(done.changed))
        new.deltas = _with_former(new.deltas, done.deltas, kept) if kept else done.deltas
        redescribe(new, late=late)
        return done.problems

    def _transformed(self, ad: ClassAd, now: int, seed: int, *, cluster_ad: bool, late: bool) -> Transformed:
        with _as_refusals():
            return self.transforms.apply(ad, now=now, seed=seed, macros=_macros(cluster_ad=cluster_ad, late=late))

    def _taken(self, names: Iterable[str]) -> list[str]:
        """The attributes that transforms may change in the jobs, without secure ones.

        :raises DeniedError: for an attribute that only the schedd sets, however a transform named it.
        """
        changed = list(names)
        refused = sorted(name for name in changed if name.lower() in NOT_TRANSFORMED)
        if not refused:
            try:
                insecure = self.locks.insecure(changed)
                return [name for name in changed if name not in insecure]
            except DeniedError as error:
                raise DeniedError(f"Failed to apply a required job transform: {error.message}") from None
        raise DeniedError(
            f"Failed to apply a required job transform: it changes {', '.join(refused)}",
            hint="tell the administrator of the access point",
        )

    @staticmethod
    def _alike(new: NewJobs, read: Iterable[str] | None) -> bool:
        """Whether all jobs are equal in the attributes that were read, so that one represents all."""
        if len(new.jobs) == 1:
            return True
        return read is not None and (_EACH_JOB | new.cluster.varied).isdisjoint(read)

    def _judged(self, new: NewJobs, schedd: ClassAd, now: int) -> list[str]:
        if not self.requirements or not new.jobs:
            return []
        shared = _shared(new)
        first = _job(new, shared, 0)
        found = self._faults(schedd, first, now)
        rules = [rule for rule in self.requirements if not self._alike(new, _reads(rule.trees(), first))]
        if rules and found:
            rules = list(self.requirements)  # the order in which warnings are shown depends on all of them
        if rules:
            expressions = [rule.expression for rule in rules]
            for at in jobs_that_fail(expressions, schedd, shared, _jobs(new), new.deltas, now):
                found += self._faults(schedd, _job(new, shared, at), now, rules) if at else []
        return _told(found)

    def _faults(self, schedd: ClassAd, job: ClassAd, now: int, rules: Sequence[Requirement] | None = None) -> list[str]:
        """The warnings about one job. ``rules``: those that are to be looked at; None: all.

        :raises DeniedError: for a requirement that it does not meet.
        """
        found = []
        for rule in self.requirements if rules is None else rules:
            if (fault := rule.fault(schedd, job, now)) is None:
                continue
            if not rule.is_warning:
                raise DeniedError(fault)
            found.append(fault)
        return found


def without(deltas: Iterable[ClassAd], edited: object, names: set[str]) -> set[str]:
    """Take the attributes that ``edited`` (EditedClusterAttrs) lists out of what a factory's jobs set for themselves.

    :return: those of ``names`` that are left.
    """
    listed = {name.strip().lower() for name in edited.split(",")} if isinstance(edited, str) else set()
    hidden = {name for name in names if name.lower() in listed}
    for delta in deltas if hidden else ():
        for name in hidden:
            delta.pop(name, None)
    return names - hidden


def _told(warnings: list[str]) -> list[str]:
    """Each text once, the last first, in HTCondor's order."""
    return list(dict.fromkeys(reversed(warnings)))


def _reads(expressions: Iterable[ExprTree], job: ClassAd) -> set[str] | None:
    """The attributes of the job that the expressions read, directly or through others; None: any."""
    found: set[str] = set()
    for expression in expressions:
        reads = expression.references()
        if reads.unbounded or reads.volatile:
            return None
        for name in (*reads.target, *reads.bare):
            found.add(name.lower())
            if name in job:
                deeper = job.lookup(name).references(job)
                if deeper.unbounded or deeper.volatile:
                    return None
                found.update(each.lower() for each in (*deeper.my, *deeper.bare))
    return found


def _shared(new: NewJobs) -> ClassAd:
    ad = new.submitted.copy()
    ad.update(native(new.cluster.common))
    return ad


def _job(new: NewJobs, shared: ClassAd, at: int) -> ClassAd:
    """The whole ad of one of the new jobs."""
    job = new.jobs[at]
    ad = shared.copy()
    if new.deltas is not None:
        ad.update(new.deltas[at])
    own = native(job.changes) if job.changes else {}
    own.update(ProcId=job.proc, JobStatus=int(job.status), GlobalJobId=new.globals[at])
    ad.update(own)
    return ad


def _jobs(new: NewJobs) -> list[tuple[int, int, str, ClassAd | None]]:
    """What :func:`_job` knows of each job besides its delta."""
    own: dict[int, ClassAd] = {}  # most jobs that have any share the same
    found: list[tuple[int, int, str, ClassAd | None]] = []
    for job, name in zip(new.jobs, new.globals, strict=True):
        more = None
        if job.changes and (more := own.get(id(job.changes))) is None:
            more = own[id(job.changes)] = ClassAd(native(job.changes))
        found.append((job.proc, int(job.status), name, more))
    return found


def _macros(*, cluster_ad: bool, late: bool) -> tuple[tuple[str, str], ...]:
    """The macros that job transforms have besides those of their language."""
    return ("isclusterad", "1" if cluster_ad else "0"), ("latematerialization", "1" if late else "0")


@contextmanager
def _as_refusals() -> Iterator[None]:
    """A transform that breaks off refuses the submission."""
    try:
        yield
    except ConfigError as error:
        raise DeniedError(f"Failed to apply a required job transform: {error.message}", hint=error.hint) from None


_Definitions = dict[str, ExprTree | str | None]


def _definitions(ad: ClassAd, names: Iterable[str]) -> _Definitions:
    """The current values of the attributes; None: removed."""
    return {name: ad.lookup(name) if name in ad else None for name in names}


def _write_cluster(new: NewJobs, changed: _Definitions) -> None:
    """Set attributes for all jobs: in the cluster's ad, and no longer in the jobs' own."""
    common = {name.lower(): name for name in new.cluster.common}
    for name, tree in changed.items():
        if (own := common.get(name.lower())) is not None:
            if tree is None:
                del new.cluster.common[own]
            else:
                new.cluster.common[own] = _value(tree)
        if tree is None:
            new.submitted.pop(name, None)
        elif own is None:
            new.submitted[name] = tree
    hidden = new.cluster.varied & {name.lower() for name in changed}
    if hidden and new.deltas is not None:
        for delta in new.deltas:
            for name in hidden:
                delta.pop(name, None)


def _write_jobs(new: NewJobs, changed: _Definitions, shared: ClassAd) -> None:
    """Set attributes for each of the jobs, with undefined for what was removed. The cluster's ad stays as it is."""
    differing = ClassAd()
    for name, tree in changed.items():
        if (name in shared) is (tree is None) or (tree is not None and str(shared.lookup(name)) != str(tree)):
            differing[name] = ExprTree("undefined") if tree is None else tree
    deltas = [ClassAd() for _ in new.jobs] if new.deltas is None else new.deltas
    for delta in deltas:
        for name in changed:
            delta.pop(name, None)
        delta.update(differing)
    new.deltas = deltas


def _with_former(former: Sequence[ClassAd] | None, deltas: Sequence[ClassAd], names: set[str]) -> Sequence[ClassAd]:
    """The deltas, with these attributes as they were before."""
    for at, delta in enumerate(deltas):
        for name in names:
            if former is not None and name in former[at]:
                delta[name] = former[at].lookup(name)
            else:
                delta.pop(name, None)
    return deltas


def _value(tree: ExprTree | str) -> Value:
    value = plain(literal_of(tree)) if isinstance(tree, ExprTree) else tree
    return value if value is not None else Expr(str(tree))


__all__ = ["EDITED", "Requirement", "SubmitRules", "without"]
