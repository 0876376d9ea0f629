"""Prepares the mails of decisions, and posts them once the decisions are durable."""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotwise.classad import ClassAd
from slotwise.classad.evaluate import write
from slotwise.daemon.containment import contained
from slotwise.mail.message import Mail
from slotwise.mail.outbox import Outbox
from slotwise.schedd.jobs.ads import JobAds
from slotwise.schedd.jobs.decision import Decision, Notice
from slotwise.schedd.notify.job_mail import compose, is_wanted

_log = logging.getLogger(__name__)
_WISH = "JobNotification"


class Notifier:
    """The schedd's mails to the users of jobs.

    Most jobs ask for none (JobNotification is 0): for those, a notice costs one look into a column.
    """

    def __init__(self, ads: JobAds, outbox: Outbox) -> None:
        self._ads = ads
        self._outbox = outbox

    def prepare(self, decision: Decision) -> Callable[[], None] | None:
        """Compose the mails of a decision whose changes are not in the table yet; returns what posts them."""
        mails: list[tuple[Mail, str]] = []
        for notice in decision.notices:
            with contained(_log, f"{notice.job.key}: composing mail"):
                mails += self._mails(notice, decision.now)
        return (lambda: self._post(mails)) if mails else None

    def _mails(self, notice: Notice, now: float) -> list[tuple[Mail, str]]:
        job = notice.job
        if not self._ads.has(job) or not self._ads.number(job, _WISH):
            return []
        ad = self._ad(notice)
        if not is_wanted(notice, ad):
            return []
        mail, refused = compose(notice, ad, now, self._outbox.settings)
        if refused:
            _log.warning("%s: no mail is sent to %s: not an address", job.key, ", ".join(refused))
        return [(mail, job.cluster.user)] if mail is not None else []

    def _ad(self, notice: Notice) -> ClassAd:
        ad = self._ads.ad(notice.job)
        write(ad, notice.job.changes or {})
        return ad

    def _post(self, mails: list[tuple[Mail, str]]) -> None:
        for mail, user in mails:
            self._outbox.post(mail, user)
