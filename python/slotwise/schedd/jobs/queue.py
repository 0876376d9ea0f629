"""The queue: decides which transitions jobs make. Pure: the time, and what starters and slots report, are arguments.

::

        submit                start                    exit, policy says so
    ──────────────▶ Idle ─────────────▶ Running ─────────────────────────────▶ Completed ─▶ history
                    ▲ │ ▲                │  │ ▲ ╲
             release│ │ └────evicted─────┘  │ │  ╲ suspend / continue
                    │ ▼hold                 ▼ │   ▶ Suspended
                    Held ◀────hold──────────┘ └─────
       any state but Completed ──remove──▶ Removed ─(when its run is over)─▶ history

A job has at most one run. A job that was held or removed while it ran keeps the run until its end is known; only then
may it start again, or leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slotwise.errors import InvariantError
from slotwise.model import job_events
from slotwise.model.reason_codes import CLAIM_WAS_OVER, VACATE_NAMES, Hold, Vacate
from slotwise.schedd.jobs.codes import Status, Universe
from slotwise.schedd.jobs.decision import Decision, Kill, Notice, NoticeKind, PolicyAction, RunEnd, RunOutcome
from slotwise.schedd.jobs.end_attrs import (
    HOLD_ATTRIBUTES,
    VACATE_ATTRIBUTES,
    closing_attributes,
    hold_attributes,
    hold_of,
    vacate_attributes,
)
from slotwise.schedd.jobs.failed_starts import failed_start
from slotwise.schedd.jobs.job import Cluster, Job, finite
from slotwise.schedd.jobs.job_index import JobIndex
from slotwise.schedd.jobs.log_lines import run_ended, slot_of
from slotwise.schedd.jobs.values import Changes

#: The cool-down after a failed start, in seconds; doubles with each consecutive failure.
_COOL_FIRST_S = 1.0
_COOL_MOST_S = 300.0
#: Why the event log of a job cannot be written for now; its events wait.
USER_LOG_ERROR = "UserLogError"
#: The attribute of a removed job whose outputs come back when its run ends.
TRANSFER_ON_REMOVE = "TransferOnRemove"


class Queue(JobIndex):
    """The job queue of the access point."""

    #: How event logs name the access point as the place where jobs execute.
    address = ""
    #: Called with the cluster of each run that begins, or ends (with the counters that its end adds to), and the time.
    on_launch: Callable[[Cluster, float], None] = staticmethod(lambda cluster, now: None)
    on_run_end: Callable[[Cluster, Iterable[str], float], None] = staticmethod(lambda cluster, counted, now: None)

    # ---- actions of users and policies

    def hold(self, job: Job, reason: str, code: int, subcode: int, decision: Decision) -> bool:
        """Put the job on hold; false when it is held, removed or completed already."""
        if job.status not in (Status.IDLE, Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT):
            return False
        if job.run:
            decision.kills.append(Kill(job.run, False, reason, code))
            if code != Hold.USER_REQUEST or job.cluster.universe == Universe.LOCAL:
                _notify_held(job, reason, code, decision)
        self._held(job, reason, code, subcode, decision)
        return True

    def hold_instead(self, job: Job, reason: str, subcode: int, decision: Decision) -> bool:
        """Make the hold of a held job the user's, so that no policy releases it; false when it is already."""
        if job.number("HoldReasonCode") in (Hold.USER_REQUEST, Hold.SPOOLING_INPUT):
            return False
        code = int(Hold.USER_REQUEST)
        decision.set(job, hold_attributes(job, reason, code, subcode))
        self._tell_held(job, reason, code, subcode, decision)
        return True

    def log_failed(self, jobs: Iterable[Job], reason: str, errno: int, lasting: bool, decision: Decision) -> None:
        """The event log of the jobs cannot be written: their ads say so (UserLogError).

        A job that has no run is held (code 22) when that is ``lasting``; one that runs goes on, and its events wait.
        """
        for job in jobs:
            if job.has_left:
                continue
            if (job.changes or {}).get(USER_LOG_ERROR) != reason:
                decision.set(job, {USER_LOG_ERROR: reason})
            if lasting and not job.run:
                self.hold(job, reason, int(Hold.UNABLE_TO_INIT_USER_LOG), errno, decision)

    def logged(self, jobs: Iterable[Job], decision: Decision) -> None:
        """The event logs of the jobs have all that was told of them."""
        for job in jobs:
            if not job.has_left and (job.changes or {}).get(USER_LOG_ERROR) is not None:
                decision.set(job, {USER_LOG_ERROR: None})

    def _held(self, job: Job, reason: str, code: int, subcode: int, decision: Decision) -> None:
        self.move(job, Status.HELD, decision, hold_attributes(job, reason, code, subcode))
        self._tell_held(job, reason, code, subcode, decision)

    def _tell_held(self, job: Job, reason: str, code: int, subcode: int, decision: Decision) -> None:
        if not _logs_hold_later(job):
            self._log_held(job, decision)
        decision.note("%s: put on hold: %s (code %d, subcode %d)", job.key, reason, code, subcode)

    def _log_held(self, job: Job, decision: Decision) -> None:
        decision.log(job, job_events.held(self.frame(job, decision.now), *hold_of(job)))

    def release(self, job: Job, reason: str, decision: Decision) -> bool:
        """Release the job; false when it is not held."""
        if job.status != Status.HELD:
            return False
        if _logs_hold_later(job):
            self._log_held(job, decision)
        changes: Changes = {"ReleaseReason": reason, "LastReleaseTime": int(decision.now)}
        for name in HOLD_ATTRIBUTES:
            changes[f"Last{name}"] = (job.changes or {}).get(name, job.cluster.common.get(name))
            changes[name] = None
        self.move(job, Status.IDLE, decision, changes)
        decision.log(job, job_events.released(self.frame(job, decision.now), reason))
        decision.note("%s: released: %s", job.key, reason)
        return True

    def remove(
        self, job: Job, reason: str, decision: Decision, *, by_policy: bool = False, with_outputs: bool = False
    ) -> bool:
        """Remove the job; it leaves when its run is over. False when it is being removed already.

        As in HTCondor, a job that runs on a slot mails its user of removals by its policy (``by_policy``) alone.
        ``with_outputs``: what it has written comes back first.
        """
        if job.status == Status.REMOVED:
            return False
        if job.status == Status.COMPLETED:
            decision.set(job, {"RemoveReason": reason, "LeaveJobInQueue": False})
            decision.note("%s: removed, it had completed: %s", job.key, reason)
            self.retire(job, decision)
            return True
        if job.status == Status.HELD and _logs_hold_later(job):
            self._log_held(job, decision)
        self.move(job, Status.REMOVED, decision, {"RemoveReason": reason})
        if job.run:
            if with_outputs:
                decision.set(job, {TRANSFER_ON_REMOVE: True})
            decision.note("%s: marked for removal, run %s is to end: %s", job.key, job.run, reason)
            decision.kills.append(Kill(job.run, False, reason, Vacate.JOB_REMOVED, with_outputs=with_outputs))
            if by_policy or job.cluster.universe == Universe.LOCAL:
                decision.notices.append(Notice(job, NoticeKind.REMOVED, reason))
        else:
            self._leave_removed(job, decision)
        return True

    def _leave_removed(self, job: Job, decision: Decision) -> None:
        reason = str((job.changes or {}).get("RemoveReason") or "")
        decision.log(job, job_events.aborted(self.frame(job, decision.now), reason))
        decision.note("%s: removed: %s", job.key, reason)
        self.retire(job, decision)

    def remove_at_once(self, job: Job, reason: str, decision: Decision) -> bool:
        """Let a removed job leave without waiting for its run; false unless it is being removed."""
        if job.status != Status.REMOVED:
            return False
        decision.set(job, {"RemoveReason": reason})
        if job.run:
            decision.kills.append(Kill(job.run, True, "removed by force", Vacate.JOB_REMOVED, forced=True))
            decision.runs_over.append(job)
            job.run = ""
        self._leave_removed(job, decision)
        return True

    def vacate(self, job: Job, reason: str, code: int, fast: bool, decision: Decision) -> bool:
        """Vacate a running job; false when it does not run."""
        if job.status not in (Status.RUNNING, Status.SUSPENDED, Status.TRANSFERRING_OUTPUT) or not job.run:
            return False
        decision.kills.append(Kill(job.run, fast, reason, code))
        decision.note("%s: vacating %s%s (run %s): %s", job.key, slot_of(job), " fast" if fast else "", job.run, reason)
        return True

    def suspended(self, job: Job, processes: int, decision: Decision) -> None:
        """The execution point suspended the job."""
        if job.status == Status.RUNNING:
            self.move(
                job,
                Status.SUSPENDED,
                decision,
                {
                    "TotalSuspensions": int(job.number("TotalSuspensions")) + 1,
                    "LastSuspensionTime": int(decision.now),
                },
            )
            decision.log(job, job_events.suspended(self.frame(job, decision.now), processes))
            decision.note("%s: suspended on %s", job.key, slot_of(job))

    def continued(self, job: Job, decision: Decision) -> None:
        """The execution point continued the job."""
        if job.status == Status.SUSPENDED:
            lasted = int(decision.now - job.number("LastSuspensionTime", decision.now))
            total = int(job.number("CumulativeSuspensionTime")) + lasted
            self.move(job, Status.RUNNING, decision, {"CumulativeSuspensionTime": total})
            decision.log(job, job_events.unsuspended(self.frame(job, decision.now)))
            decision.note("%s: continued on %s", job.key, slot_of(job))

    # ---- runs

    def begin_run(self, job: Job, run_id: str, attributes: Changes, decision: Decision) -> None:
        """Start a run on a claimed slot, with the job's ``attributes`` that follow from it, or on the access point."""
        if job.run:
            raise InvariantError(f"job {job.key} has a run already: {job.run}")
        job.run = run_id
        now = int(decision.now)
        starts = int(job.number("NumShadowStarts")) + 1
        changes: Changes = {
            "NumShadowStarts": starts,
            "JobRunCount": starts,
            "ShadowBday": now,
            "JobCurrentStartDate": now,
            "JobLastStartDate": int(job.number("JobCurrentStartDate")) or None,
            "CurrentHosts": 1,
            # The reason of the last vacate does not hold any more.
            **dict.fromkeys(VACATE_ATTRIBUTES),
            **attributes,
        }
        if not job.cluster.runs_here:
            matches = int(job.number("NumJobMatches")) + 1
            changes.update(NumJobMatches=matches, LastMatchTime=now, LastJobLeaseRenewal=now)
        if not job.number("JobStartDate"):
            entered = max(job.cluster.qdate, int(job.number("JobMaterializeDate")))
            changes.update(JobStartDate=now, InitialWaitDuration=max(0, now - entered))
            changes["OrigMaxHosts"] = int(job.number("MaxHosts", 1))
        if not job.cluster.runs_here and not job.number("FirstJobMatchDate"):
            changes["FirstJobMatchDate"] = job.cluster.first_match = job.cluster.first_match or now
        known = job.changes or {}
        self.move(job, Status.RUNNING, decision, {k: v for k, v in changes.items() if v is not None or k in known})
        self.statistics.started(job, decision.now)
        self.on_launch(job.cluster, decision.now)
        decision.note("%s: started on %s (run %s)", job.key, slot_of(job), run_id)

    def executing(self, job: Job, host: str, slot_name: str, properties: dict[str, str], decision: Decision) -> None:
        """The job's process has started."""
        now = int(decision.now)
        decision.set(
            job,
            {
                "NumJobStarts": int(job.number("NumJobStarts")) + 1,
                "JobCurrentStartExecutingDate": now,
                "ActivationSetupDuration": max(0, now - int(job.number("ShadowBday", now))),
            },
        )
        decision.log(job, job_events.executing(self.frame(job, decision.now), host, slot_name, properties))
        if not job.cluster.runs_here:
            decision.notices.append(Notice(job, NoticeKind.STARTED))

    def executing_together(self, job: Job, decision: Decision, *, logs: bool) -> None:
        """All nodes of a parallel job have started; ``logs``: it is the one whose log says so."""
        started: Changes = {
            "NumJobStarts": int(job.number("NumJobStarts")) + 1,
            "JobCurrentStartExecutingDate": int(decision.now),
        }
        decision.set(job, started)
        if logs:
            decision.log(job, job_events.executing_together(self.frame(job, decision.now)))
            decision.notices.append(Notice(job, NoticeKind.STARTED))

    def grown(self, job: Job, attributes: Changes, decision: Decision) -> None:
        """Take over the report at the end of a run if the image has grown, so that the event log tells of it first."""
        size = attributes.get("ImageSize")
        if size is not None and size != (job.changes or {}).get("ImageSize"):
            self.usage(job, attributes, decision)

    def usage(self, job: Job, attributes: Changes, decision: Decision) -> None:
        """Take over a usage report; the event log gets an entry when the image grew."""
        former = finite((job.changes or {}).get("ImageSize"))  # 0: none was measured before
        decision.set(job, attributes)
        image = job.number("ImageSize")
        if image != former and "ImageSize" in attributes:
            memory = attributes.get("MemoryUsage")
            resident = int(job.number("ResidentSetSize", -1))
            if not isinstance(memory, int):
                memory = (resident + 1023) // 1024 if resident >= 0 else -1
            decision.log(
                job,
                job_events.image_size(
                    self.frame(job, decision.now),
                    int(image),
                    memory,
                    resident,
                    int(job.number("ProportionalSetSizeKb", -1)),
                ),
            )

    def end_run(self, job: Job, end: RunEnd, decision: Decision) -> None:
        """End the job's run: the job completes, is held, becomes idle again, or leaves.

        A job that has already left because it was removed by force does not change.
        """
        if not self.has(job):
            return
        was_held = job.status == Status.HELD
        decision.note(*run_ended(job, job.run, slot_of(job), end))
        decision.set(job, closing_attributes(job, end, decision.now))
        self._log_over(job, end, decision)
        job.run = ""
        decision.runs_over.append(job)
        if job.status == Status.REMOVED:
            self._leave_removed(job, decision)
        elif job.status in (Status.IDLE, Status.HELD, Status.COMPLETED):
            self.sort_in(job, decision)  # it was held (and maybe released) while it ran
        elif end.how.by_itself:
            self._exited(job, end, decision)
        elif end.how == RunOutcome.UNFIT or (
            end.how in (RunOutcome.HELD, RunOutcome.NOT_STARTED) and not end.is_vacate and not end.cool_down_s
        ):
            self._held_by_execution_point(job, end, decision)
        else:
            self._vacated(job, end, decision)
        counted = self.statistics.ended(job, end, decision.now)
        if not was_held:  # HTCondor's daily counters have the holds that ended a run, not those by users
            self.on_run_end(job.cluster, counted, decision.now)

    def abandon_run(self, job: Job, run_id: str, reason: str, decision: Decision) -> None:
        """End a run because of a fault of the access point, maybe half-way through a change of the job.

        Afterwards the job has no run and is in a consistent state.
        """
        if not self.has(job):
            decision.retired.append(job)  # that it left may not be durable; it counts once, see Job.counted
            return
        if job.run not in ("", run_id):
            return  # it has another run by now
        if job.status == Status.HELD and _logs_hold_later(job):
            self._log_held(job, decision)
        job.run = ""
        decision.runs_over.append(job)
        decision.set(job, dict(job.changes or {}))  # what was decided before may not be durable either
        if "RemoteHost" in (job.changes or {}):
            wall_s = max(0.0, decision.now - job.number("ShadowBday", decision.now))
            decision.set(job, closing_attributes(job, RunEnd(RunOutcome.FAILED, wall_s=wall_s), decision.now))
        if job.status == Status.REMOVED:
            self._leave_removed(job, decision)
        elif job.status in (Status.IDLE, Status.HELD, Status.COMPLETED):
            self.sort_in(job, decision)
        else:
            self._vacated(
                job, RunEnd(RunOutcome.FAILED, reason=reason, reason_code=int(Vacate.SHADOW_EXCEPTION)), decision
            )

    def _exited(self, job: Job, end: RunEnd, decision: Decision) -> None:
        self.continued(job, decision)  # the report of that may come later than the end
        verdict = end.verdict
        completions = int(job.number("NumJobCompletions")) + 1
        act = verdict.act if verdict else PolicyAction.COMPLETE
        changes: Changes = {"NumJobCompletions": completions}
        if act == PolicyAction.COMPLETE:
            changes["CompletionDate"] = int(end.over_at or end.at or decision.now)
            self.move(job, Status.COMPLETED, decision, changes)
            decision.log(
                job,
                job_events.terminated(
                    self.frame(job, decision.now),
                    normal=end.how == RunOutcome.EXITED,
                    code=end.code,
                    usage=end.usage,
                    core=end.core,
                ),
            )
            decision.notices.append(_notice_of_exit(job, NoticeKind.EXITED, end))
            return
        decision.set(job, changes)
        assert verdict is not None
        if act == PolicyAction.HOLD:
            if job.cluster.universe == Universe.LOCAL:
                self._log_evicted(job, decision, end, verdict.reason, verdict.code, verdict.subcode)
            self._held(job, verdict.reason, verdict.code, verdict.subcode, decision)
            _notify_held(job, verdict.reason, verdict.code, decision)
        elif act == PolicyAction.REMOVE:
            self.move(job, Status.REMOVED, decision, {"RemoveReason": verdict.reason})
            decision.notices.append(Notice(job, NoticeKind.REMOVED, verdict.reason))
            self._leave_removed(job, decision)
        else:
            if job.cluster.universe == Universe.LOCAL:
                decision.notices.append(_notice_of_exit(job, NoticeKind.REQUEUED, end))
            requeued = (end.how == RunOutcome.EXITED, end.code)
            frame = self.frame(job, decision.now)
            decision.log(job, job_events.evicted(frame, usage=end.usage, reason=verdict.reason, requeued=requeued))
            requeue: Changes = {"LastVacateTime": int(decision.now)}
            if end.cool_down_s:
                requeue.update(self._cool(job, end.cool_down_s, decision))
            self.move(job, Status.IDLE, decision, requeue)
            decision.note("%s: requeued: %s", job.key, verdict.reason)

    def set_cool_down(self, job: Job, decision: Decision) -> None:
        """Take the end of the cool-down that a user has given the job (JobCoolDownExpiration)."""
        job.cool_from, job.cool_until = min(job.cool_from, decision.now), job.number("JobCoolDownExpiration")
        if self.waits(job):
            self.cooling.discard(job)
            self.runnable.discard(job)
            self.sort_in(job, decision)

    @staticmethod
    def _cool(job: Job, seconds: float, decision: Decision) -> Changes:
        """Start a cool-down of the job."""
        job.cool_from, job.cool_until = decision.now, decision.now + seconds
        decision.note("%s: in cool-down for %.0f s", job.key, seconds)
        return {
            "JobCoolDownExpiration": int(job.cool_until),
            "NumJobCoolDowns": int(job.number("NumJobCoolDowns")) + 1,
        }

    def leave(self, job: Job, decision: Decision) -> None:
        """A completed job leaves the queue for the history; not before its event log has its end."""
        told_now = any(told is job and job.logs_of(entry) for told, entry in decision.entries)
        if job.status == Status.COMPLETED and not job.unlogged and not told_now:
            self.retire(job, decision)

    def _held_by_execution_point(self, job: Job, end: RunEnd, decision: Decision) -> None:
        by_shadow = end.reason_code == Hold.HOOK_SHADOW_PREPARE_JOB_FAILURE  # before its starter was given the job
        if end.how == RunOutcome.HELD and not by_shadow and job.cluster.universe != Universe.SCHEDULER:
            self._log_error(job, end, decision)
            decision.set(job, vacate_attributes(job, end.reason, end.reason_code, end.reason_subcode, decision.now))
            self._log_evicted(job, decision, end, end.reason, end.reason_code, end.reason_subcode)
        self._held(job, end.reason, end.reason_code, end.reason_subcode, decision)
        _notify_held(job, end.reason, end.reason_code, decision)

    def _log_over(self, job: Job, end: RunEnd, decision: Decision) -> None:
        """Log the end of a run that a user ended by a hold or a removal, and the hold itself.

        As in HTCondor, the entry of the hold follows that of the eviction, which has the usage of the run and is
        therefore written now. Holds by policies are logged at once, without an eviction.
        """
        ran = end.how in (RunOutcome.EXITED, RunOutcome.SIGNALED, RunOutcome.EVICTED, RunOutcome.HELD, RunOutcome.LOST)
        if job.status == Status.REMOVED:
            reason, code, subcode = str((job.changes or {}).get("RemoveReason") or ""), int(Vacate.JOB_REMOVED), 0
        elif job.status == Status.HELD and _logs_hold_later(job):
            reason, code, subcode = hold_of(job)
        elif job.status == Status.IDLE and _is_told_later(job, "Last"):  # released meanwhile
            reason, code, subcode = hold_of(job, "Last")
        else:
            return
        if ran:
            decision.set(job, vacate_attributes(job, reason, code, subcode, decision.now))
            self._log_evicted(job, decision, end, reason, code, subcode)
        if job.status == Status.HELD:
            self._log_held(job, decision)

    def _log_error(self, job: Job, end: RunEnd, decision: Decision) -> None:
        if end.error:
            frame, codes = self.frame(job, decision.now), (end.reason_code, end.reason_subcode)
            if job.cluster.runs_here:
                decision.log(job, job_events.remote_error(frame, f"<{self.address}>", end.error, 0, 0))
            else:
                decision.log(job, job_events.remote_error(frame, slot_of(job), end.error, *codes))

    def wake(self, now: float) -> bool:
        """Make jobs runnable whose cool-down is over; returns whether there are any.

        A cool-down that begins in the future dates from before the clock was set back.
        """
        due = [job for job in self.cooling if not job.cool_from <= now < job.cool_until]
        for job in due:
            self.cooling.discard(job)
            if job.status == Status.IDLE and not job.run:
                self.runnable.add(job)
        return bool(due)

    def _vacated(self, job: Job, end: RunEnd, decision: Decision) -> None:
        code = end.reason_code or int(
            Vacate.RECONNECT_FAILED if end.how == RunOutcome.LOST else Vacate.CLAIM_DEACTIVATED
        )
        if end.how == RunOutcome.NOT_STARTED and code in CLAIM_WAS_OVER:
            self.move(job, Status.IDLE, decision, {})
            return
        reason = end.reason or VACATE_NAMES.get(code, "The job was evicted")
        changes = vacate_attributes(job, reason, code, end.reason_subcode, decision.now)
        if end.failed and end.how != RunOutcome.FAILED and code != Vacate.SCHEDD_VACATE:
            changes.update(failed_start(job, slot_of(job), reason, decision.now))
        if end.failed or (end.how == RunOutcome.EVICTED and code == Vacate.STARTER_ERROR):
            # Without a cool-down it would most likely fail again at once, many times a second.
            job.failures += 1
            wait_s = min(_COOL_MOST_S, _COOL_FIRST_S * 2.0 ** min(job.failures - 1, 20))
            changes.update(self._cool(job, max(wait_s, end.cool_down_s), decision))
        else:
            job.failures = 0
            if end.cool_down_s:
                changes.update(self._cool(job, end.cool_down_s, decision))
        if end.how == RunOutcome.FAILED:
            changes["NumShadowExceptions"] = int(job.number("NumShadowExceptions")) + 1
        if end.how in (RunOutcome.NOT_STARTED, RunOutcome.FAILED):
            decision.log(job, job_events.shadow_exception(self.frame(job, decision.now), reason))
        else:
            if end.how == RunOutcome.LOST:
                decision.log(job, job_events.reconnect_failed(self.frame(job, decision.now), reason, slot_of(job)))
            self._log_error(job, end, decision)
            self._log_evicted(job, decision, end, reason, code, end.reason_subcode)
        self.move(job, Status.IDLE, decision, changes)

    def _log_evicted(self, job: Job, decision: Decision, end: RunEnd, reason: str, code: int, subcode: int) -> None:
        frame = self.frame(job, decision.now)
        if job.cluster.runs_here:  # HTCondor's entry tells no more of these
            reason, code, subcode = "", 0, 0
        decision.log(job, job_events.evicted(frame, usage=end.usage, reason=reason, code=code, subcode=subcode))


def _notify_held(job: Job, reason: str, code: int, decision: Decision) -> None:
    """Mail the user of a hold that ended a run; of the scheduler universe, HTCondor mails exits alone."""
    if job.cluster.universe != Universe.SCHEDULER:
        decision.notices.append(Notice(job, NoticeKind.HELD, reason, code))


def _notice_of_exit(job: Job, kind: NoticeKind, end: RunEnd) -> Notice:
    return Notice(job, kind, sent=end.usage.sent, received=end.usage.received, core=bool(end.core))


def _logs_hold_later(job: Job) -> bool:
    """Whether the event log gets the job's hold only when its run is over."""
    return bool(job.run) and _is_told_later(job)


def _is_told_later(job: Job, which: str = "") -> bool:
    """Whether a hold of the running job for the reason that it has, or had (``which`` is "Last"), is logged at the end
    of its run, as in HTCondor: of jobs that run on the access point every one, of others a user's."""
    code = job.number(f"{which}HoldReasonCode")
    return code == Hold.USER_REQUEST or (job.cluster.runs_here and code != 0)
