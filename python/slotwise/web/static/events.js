// What happened of late: jobs by when they came into the state that they are in, and those that left.

import { API, askPage, query } from "./api.js";
import { element, table } from "./dom.js";
import { STATUS, duration, ended, now, several, when } from "./words.js";
import { address } from "./view.js";

const MOST = 60;
const COLUMNS = "ClusterId,ProcId,Owner,JobStatus,EnteredCurrentStatus,CompletionDate,HoldReason,RemoveReason,RemoteHost,LastRemoteHost,JobBatchName,ExitCode,ExitBySignal,ExitSignal,NumJobStarts,LastVacateReason,VacateReason,QDate,TotalSubmitProcs";

export async function eventsPage() {
  const waited = "(JobStatus == 1 && (NumJobStarts ?: 0) == 0)";
  const [changed, submitted, history] = await Promise.all([
    askPage(`${API}/jobs?${query({ constraint: `!${waited}`, order: "-EnteredCurrentStatus", limit: MOST, projection: COLUMNS })}`),
    // A cluster is submitted at once, however many jobs it has.
    askPage(`${API}/jobs?${query({ constraint: "ProcId == 0", order: "-QDate", limit: MOST, projection: COLUMNS })}`),
    askPage(`${API}/history?${query({ limit: MOST, projection: COLUMNS })}`),
  ]);
  const rows = [
    ...[...changed.rows, ...history.rows].map((job) => ({ at: job.EnteredCurrentStatus || job.QDate, job, what: what(job) })),
    ...submitted.rows.map((job) => ({ at: job.QDate, job: { ...job, JobStatus: 1 }, what: job.TotalSubmitProcs > 1 ? `was submitted, with ${several(job.TotalSubmitProcs - 1, "further job", "further jobs")}` : "was submitted" })),
  ].sort((one, other) => other.at - one.at).slice(0, MOST);
  return [
    element("h1", {}, "What happened of late"),
    rows.length ? table("Submissions, and the last change of each job, the newest first", [
      { title: "When", value: ({ at }) => when(at) },
      { title: "Ago", number: true, value: ({ at }) => duration(now() - at) },
      { title: "Job", value: ({ job }) => element("a", { href: address("job", {}, `${job.ClusterId}.${job.ProcId}`) }, `${job.ClusterId}.${job.ProcId}`) },
      { title: "Owner", value: ({ job }) => job.Owner },
      { title: "What", wide: true, value: ({ job, what: said }) => element("span", {}, element("i", { class: `dot state-${job.JobStatus}` }), said) },
      { title: "Batch", value: ({ job }) => job.JobBatchName || "" },
    ], rows) : element("p", {}, "Nothing yet. ", element("a", { href: address("submit") }, "Submit jobs"), "."),
  ];
}

function what(job) {
  const where = job.RemoteHost || job.LastRemoteHost;
  switch (job.JobStatus) {
    case 1: return `waits again${job.LastVacateReason || job.VacateReason ? `: ${job.LastVacateReason || job.VacateReason}` : ""}`;
    case 2: return `started${where ? ` on ${where}` : ""}`;
    case 3: return `was removed${job.RemoveReason ? `: ${job.RemoveReason}` : ""}`;
    case 4: return `completed${ended(job) ? `, ${ended(job)}` : ""}`;
    case 5: return `was put on hold: ${job.HoldReason || ""}`;
    default: return STATUS[job.JobStatus] || String(job.JobStatus);
  }
}
