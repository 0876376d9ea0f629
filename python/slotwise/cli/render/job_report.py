"""The report of `pool-job-report`: whose jobs ran how long on the pool's machines. Pure.

What counts and how it is shown is as in HTCondor's condor_pool_job_report: runs that ended by themselves and took less
than :data:`LONGEST_S` are completed, what took longer has hit the limit of MaxJobRetirementTime.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable

from msgspec import Struct, field

from slotwise.classad import ClassAd
from slotwise.observe.log import one_line

#: Below it a run counts as short; from it on as too long to be completed, in seconds.
SHORT_S, LONGEST_S, LIMIT_S = 60, 251_000, 252_000
_VANILLA, _COMPLETED = 5, 4
HEADINGS = (
    "User", "Schedd", "Starts", "Restarted", "Total", "Short", "OSGable", "Removed", "1st", "Median", "3rd", "Max",
    "Mean", "SD",
)  # fmt: skip
_BELOW = (
    "", "", "", "Jobs", "Hours", "Jobs", "Hours", "Hours", "Quartile", "Runtime", "Quartile", "Runtime", "Runtime", "",
)  # fmt: skip


class UserJobs(Struct):
    """The jobs of one user."""

    runs_s: list[int] = field(default_factory=list)
    ids: set[tuple[int, int]] = field(default_factory=set)
    removed_s: float = 0
    glidein_s: float = 0

    @property
    def total_s(self) -> int:
        """How long all runs took."""
        return sum(self.runs_s)

    def quantile(self, quarters: int) -> int:
        """The run that so many quarters of all runs are not longer than, as HTCondor's report counts."""
        count = len(self.runs_s)
        place = count // 2 if quarters == 2 else count // 4 * quarters
        return sorted(self.runs_s)[max(place, 1) - 1]

    @property
    def mean_s(self) -> int:
        """The mean of the runs."""
        return int(self.total_s / len(self.runs_s))

    @property
    def deviation_s(self) -> int:
        """The standard deviation of the runs."""
        mean = self.total_s / len(self.runs_s)
        return int(math.sqrt(max(0.0, sum(run * run for run in self.runs_s) / len(self.runs_s) - mean * mean)))

    def times(self) -> tuple[int, ...]:
        """Quartiles, greatest, mean and deviation, in seconds."""
        return (
            self.quantile(1), self.quantile(2), self.quantile(3), max(self.runs_s), self.mean_s, self.deviation_s,
        )  # fmt: skip

    def counts(self) -> tuple[int, ...]:
        """Starts, restarted jobs, hours, short runs, hours of glideins, hours of removed jobs."""
        short = sum(run < SHORT_S for run in self.runs_s)
        hours = (self.total_s // 3600, short, int(self.glidein_s // 3600), int(self.removed_s // 3600))
        return (len(self.runs_s), len(self.runs_s) - len(self.ids), *hours)


class Report(Struct):
    """What the machines' histories tell of one day."""

    users: dict[str, UserJobs] = field(default_factory=dict)
    too_long: dict[str, int] = field(default_factory=dict)

    def take(self, ads: Iterable[ClassAd], begin: float, end: float) -> None:
        """Take in the ads of jobs that were completed from ``begin`` to ``end``, in seconds since the epoch.

        An ad without a user, an id and a time that a run can have taken is left out.
        """
        for ad in ads:
            done, wall, user = ad.get("CompletionDate"), ad.get("RemoteWallClockTime"), ad.get("User")
            if not isinstance(done, int | float) or not begin <= done < end:
                continue
            if not isinstance(wall, int | float) or isinstance(wall, bool) or not 0 <= wall < math.inf:
                continue
            cluster, proc = ad.get("ClusterId"), ad.get("ProcId")
            if isinstance(user, str) and isinstance(cluster, int) and isinstance(proc, int):
                self._take(ad, one_line(user), wall, (cluster, proc))

    def _take(self, ad: ClassAd, user: str, wall: float, job: tuple[int, int]) -> None:
        if wall > LIMIT_S and ad.get("JobUniverse") == _VANILLA and ad.get("Owner") != "boinc":
            self.too_long[user] = self.too_long.get(user, 0) + 1
        if wall >= LONGEST_S:
            return
        jobs = self.users.setdefault(user, UserJobs())
        if ad.get("JobStatus") != _COMPLETED:
            jobs.removed_s += wall
        elif ad.get("ExitBySignal") is False:
            jobs.runs_s.append(int(wall))
            jobs.ids.add(job)
            if ad.get("WantGlidein") is True:
                jobs.glidein_s += wall

    def _shown(self) -> list[tuple[str, UserJobs]]:
        found = [(user, jobs) for user, jobs in self.users.items() if jobs.runs_s]
        return sorted(found, key=lambda one: (one[1].total_s // 3600, one[0]))

    def text(self, date: str, machines: int) -> str:
        """The report for people."""
        lines = [f"HTCondor Job Durations report running at {date}", f"Got data from {machines} hosts", "", ""]
        lines += [_line(HEADINGS), _line(_BELOW), ""]
        for user, jobs in self._shown():
            name, _, domain = user.partition("@")
            times = (f"{seconds // 3600:02}:{seconds // 60 % 60:02}" for seconds in jobs.times())
            lines.append(_line((name, domain, *(str(count) for count in jobs.counts()), *times)))
        every = [jobs for _, jobs in self._shown()]
        lines += [
            "",
            f"Total completed jobs yesterday: {sum(len(jobs.runs_s) for jobs in every)}",
            f"Using a total of {sum(jobs.total_s for jobs in every) // 3600} hours",
            "",
            "The following users have run vanilla jobs that have hit the MaxJobRetirementTime limit yesterday.",
            "",
            "# of\tUser",
            "Jobs",
            "----\t----",
        ]
        lines += [
            f"{count:7} {user}" for user, count in sorted(self.too_long.items(), key=lambda one: (one[1], one[0]))
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """The table for spreadsheets; times in seconds."""
        made = io.StringIO()
        rows = csv.writer(made, lineterminator="\n")
        rows.writerow(HEADINGS)
        for user, jobs in sorted(self.users.items()):
            if jobs.runs_s:
                name, _, domain = user.partition("@")
                rows.writerow((_as_text(name), _as_text(domain), *jobs.counts(), *jobs.times()))
        return made.getvalue()

    def rows(self) -> list[dict[str, object]]:
        """The table for programs."""
        names = ("User", *HEADINGS[2:])
        return [dict(zip(names, (user, *jobs.counts(), *jobs.times()), strict=True)) for user, jobs in self._shown()]


def _as_text(cell: str) -> str:
    """A cell that spreadsheets do not compute: they take some first characters for those of a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell


def _line(cells: Iterable[str]) -> str:
    user, schedd, *others = cells
    return f"{user:<12} {schedd:>30} " + " ".join(f"{cell:>8}" for cell in others)
