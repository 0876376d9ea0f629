// What the negotiator did in its last cycles, in words.

import { API, ask } from "./api.js";
import { cards, element, table } from "./dom.js";
import { capital, duration, number, several, when, words } from "./words.js";
import { address } from "./view.js";

const ROWS = 200;
const ms = (value) => (typeof value === "number" ? `${(1000 * value).toFixed(1)} ms` : "");
const PHASES = { gather_s: "asking access points", prepare_s: "preparing", sort_s: "sorting", match_s: "matching", dispatch_s: "telling access points" };
const OF_SLOTS = { protected: "busy with jobs that may not be preempted", prefer_running: "prefer the job that they run", too_heavy: "cost more than the share that is left", limited: "beyond a concurrency limit" };

export async function cyclePage() {
  let cycle;
  try { cycle = await ask(`${API}/cycle`); } catch (error) {
    if (error.status === 404) return [element("h1", {}, "Negotiation"), element("p", {}, error.message)];
    throw error;
  }
  const of = cycle.statistics || {};
  return [
    element("h1", {}, "The last negotiation cycle"),
    element("p", { class: "quiet" }, `Cycle ${number(cycle.cycle)}, begun ${when(cycle.started_at)} (${cycle.why || "by the timer"}), ${duration(Date.now() / 1000 - cycle.started_at)} ago; it took ${ms(cycle.duration_s)}.`),
    cards([["matches", number(cycle.matches)], ["of these with a claim ended", number(cycle.preemptions)], ["idle jobs", number(of.idle_jobs)], ["kinds of jobs looked at", number(of.jobs_considered)],
      ["slots looked at", number(of.candidate_slots)], ["kinds of slots", number(of.slot_classes)], ["submitters", number(of.active_submitters)], ["access points", number(cycle.schedds)]]),
    (cycle.failed_schedds || []).length ? element("p", { class: "bad" }, `These access points did not answer: ${cycle.failed_schedds.join(", ")}`) : null,
    ...submitters(cycle.submitters || []), ...refusals("Rejected", cycle.rejections || [], "rejected"), ...refusals("Held back before they were looked at to their end", cycle.waiting || [], "held back"),
    ...groups(cycle.groups || []), ...kept(cycle.reservations || []), ...phases(cycle), ...await pastCycles(),
  ];
}

const listed = (title, rows, caption, columns) => (rows.length ? [element("h2", {}, title), table(rows.length > ROWS ? `${caption}, the first ${ROWS} of them` : caption, columns, rows.slice(0, ROWS))] : []);

function submitters(rows) {
  return listed("Submitters", rows, several(rows.length, "submitter", "submitters"), [
    { title: "Name", value: (row) => row.name },
    { title: "Group", value: (row) => (row.group === "<none>" ? "" : row.group) },
    { title: "Share", number: true, value: (row) => (typeof row.share === "number" ? `${(100 * row.share).toFixed(1)}%` : "") },
    { title: "In use (cores)", number: true, value: (row) => number(row.usage) },
    { title: "May have (cores)", number: true, value: (row) => (typeof row.limit === "number" ? number(row.limit) : "no limit") },
    { title: "Matches", number: true, value: (row) => number(row.matched) },
    { title: "Effective priority", number: true, value: (row) => number(Math.round(100 * row.effective_priority) / 100) },
    { title: "Held back by", wide: true, value: (row) => (row.held_back ? words(String(row.held_back)) : "") },
  ]);
}

function refusals(title, rows, what) {
  return listed(title, rows, `Kinds of jobs that were ${what}, each by its first job`, [
    { title: "Job", value: (row) => (/^\d+\.\d+$/.test(row.autocluster) ? element("a", { href: address("job", {}, row.autocluster) }, row.autocluster) : row.autocluster || "") },
    { title: "Jobs like it", number: true, value: (row) => number(row.count) },
    { title: "Submitter", value: (row) => row.submitter },
    { title: "At", value: (row) => row.schedd || "" },
    { title: "Why", wide: true, value: (row) => row.reason },
    { title: "Slots that would fit", wide: true, value: (row) => Object.entries(row.slots || {}).filter(([, count]) => count > 0).map(([key, count]) => `${number(count)} ${OF_SLOTS[key] || words(key)}`).join(", ") },
  ]);
}

function groups(rows) {
  const named = rows.filter((row) => row.name !== "<none>" || rows.length === 1);
  return listed("Groups", named.length > 1 || named[0]?.name !== "<none>" ? rows : [], "Accounting groups, in the order in which they were served", [
    { title: "Group", value: (row) => (row.name === "<none>" ? "(no group)" : row.name) },
    { title: "Quota (cores)", number: true, value: (row) => number(row.quota) },
    { title: "Configured", value: (row) => (row.name === "<none>" ? "what is left" : row.static ? several(row.config_quota, "core", "cores") : `${(100 * row.config_quota).toFixed(1)}%`) },
    { title: "Asked for", number: true, value: (row) => number(row.requested) },
    { title: "Allotted", number: true, value: (row) => number(row.allocated) },
    { title: "In use", number: true, value: (row) => number(row.usage) },
    { title: "Matches", number: true, value: (row) => number(row.matched) },
  ]);
}

function kept(rows) {
  const keys = rows.length ? Object.keys(rows[0]).filter((key) => typeof rows[0][key] !== "object") : [];
  return listed("Machines kept free for large jobs", rows, several(rows.length, "machine", "machines"), keys.map((key) => ({
    title: capital(words(key)), number: typeof rows[0][key] === "number", wide: typeof rows[0][key] === "string",
    value: (row) => (typeof row[key] === "number" ? (row[key] > 1e9 ? when(row[key]) : number(row[key])) : String(row[key] ?? "")),
  })));
}

function phases(cycle) {
  const found = { gather_s: cycle.gather_s, ...cycle.timings, dispatch_s: cycle.dispatch_s };
  const rows = Object.entries(PHASES).filter(([key]) => typeof found[key] === "number");
  return listed("Where its time went", rows, `${ms(cycle.duration_s)} in all`, [
    { title: "Part", value: ([, title]) => capital(title) }, { title: "Took", number: true, value: ([key]) => ms(found[key]) },
  ]);
}

async function pastCycles() {
  const [ad = {}] = await ask(`${API}/negotiators?limit=1`);
  const rows = [];
  for (let index = 0; index < 100 && ad[`LastNegotiationCycleEnd${index}`] !== undefined; index += 1) {
    rows.push((what) => ad[`LastNegotiationCycle${what}${index}`]);
  }
  return listed("The cycles before", rows, `${several(rows.length, "cycle", "cycles")}, the newest first`, [
    { title: "Ended", value: (one) => when(one("End")) },
    { title: "Took", number: true, value: (one) => ms(one("Duration")) },
    { title: "of it asking", number: true, value: (one) => ms(one("PrefetchDuration")) },
    { title: "Slots", number: true, value: (one) => number(one("CandidateSlots")) },
    { title: "Idle jobs", number: true, value: (one) => number(one("NumIdleJobs")) },
    { title: "Submitters", number: true, value: (one) => number(one("ActiveSubmitterCount")) },
    { title: "Matches", number: true, value: (one) => number(one("Matches")) },
    { title: "Rejections", number: true, value: (one) => number(one("Rejections")) },
  ]);
}
