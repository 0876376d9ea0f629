// The queue and the history as tables: pages, sorted by the access point, with what may be done to those that are chosen.

import { API, ask, askPage, cannot, change, query, session } from "./api.js";
import { confirmed, element, say, table, told } from "./dom.js";
import { STATUS, duration, ended, mebibytes, now, number, quoted, reason, several, share, when, words as asWords } from "./words.js";
import { address, go, place, view } from "./view.js";

const COLUMNS = "ClusterId,ProcId,Owner,User,JobStatus,EnteredCurrentStatus,QDate,CompletionDate,Cmd,Args,Arguments,JobBatchName,RequestCpus,RequestMemory,RequestGPUs,AccountingGroup,RemoteHost,HoldReason,LastRejMatchReason,LastRejMatchTime,LastVacateReason,VacateReason,RemoveReason,NumJobStarts,JobPrio,ExitCode,ExitBySignal,ExitSignal,RemoteWallClockTime,LastRemoteHost";
const ROWS = 100, BATCHES = 12;
const RESULTS = { success: "done", not_found: "is not in the queue", permission_denied: "is not yours", bad_status: "is not in a state for it", already_done: "was so already" };

// Ids that are chosen, and the pages before this one.
const chosen = new Set();
let trail = [];
let of = "";

// One condition each, so that what is wrong with the reader's own is said of that.
function constraintsOf(words) {
  const parts = [];
  if (words.state) parts.push(`JobStatus == ${Number(words.state) || 0}`);
  if (words.owner) parts.push(words.owner.includes("@") ? `User == ${quoted(words.owner)}` : `Owner == ${quoted(words.owner)}`);
  if (words.constraint) parts.push(words.constraint);
  return parts;
}

// What was chosen, and the way back, belong to one question.
function asked(page, words) {
  const now = JSON.stringify([page, words.state, words.owner, words.constraint, words.order, words.mine]);
  if (now !== of) { chosen.clear(); trail = []; }
  of = now;
}

const jobLink = (job) => element("a", { href: address("job", {}, `${job.ClusterId}.${job.ProcId}`) }, `${job.ClusterId}.${job.ProcId}`);
function what(job) {
  const whole = [job.JobBatchName, [String(job.Cmd || "").split("/").pop(), job.Args || job.Arguments || ""].join(" ").trim()].filter(Boolean).join(": ");
  return whole.length > 44 ? element("span", { title: whole }, `${whole.slice(0, 42)}…`) : whole;
}
const ofRow = (job) => `${job.ClusterId}.${job.ProcId}`;

export async function jobsPage() {
  const { words } = place();
  asked("jobs", words);
  const constraint = constraintsOf(words);
  const order = words.order || "id";
  const mine = words.mine && session.signedIn ? "1" : "";
  const [{ rows: jobs, next }, totals, batches, cycle] = await Promise.all([
    askPage(`${API}/jobs?${query({ constraint, projection: COLUMNS, limit: ROWS, order, after: words.after, mine })}`),
    ask(`${API}/totals?${query({ constraint })}`),
    words.after ? { batches: [], left_out: 0 } : ask(`${API}/batches?${query({ mine: session.signedIn ? "1" : "", limit: BATCHES })}`),
    ask(`${API}/cycle`).catch(() => ({})), // without a negotiator there are jobs all the same
  ]);
  const set = (changed) => go("jobs", { ...words, after: "", ...changed });
  const count = mine ? null : totals.selected.jobs;
  const caption = jobs.length ? `${count === null ? "Your jobs" : several(count, "job", "jobs")}${words.after || next ? `, ${number(jobs.length)} on this page` : ""}` : "No jobs";
  const shown = jobs.length || constraint.length || words.after ? table(caption, [
    { title: chooseAll(jobs), value: (job) => choose(job) },
    { title: "Job", order: "id", value: jobLink },
    { title: "Owner", order: "Owner", value: (job) => job.Owner },
    { title: "State", order: "JobStatus", value: (job) => element("span", {}, element("i", { class: `dot state-${job.JobStatus}` }), STATUS[job.JobStatus] || job.JobStatus) },
    { title: "Since", order: "EnteredCurrentStatus", number: true, value: (job) => duration(now() - (job.EnteredCurrentStatus || job.QDate)) },
    { title: "Where, or why not", wide: true, value: (job) => reason(job, cycle) },
    { title: "Cores", order: "RequestCpus", number: true, value: (job) => number(job.RequestCpus) },
    { title: "Memory", order: "RequestMemory", number: true, value: (job) => mebibytes(job.RequestMemory) },
    { title: "Priority", order: "JobPrio", number: true, value: (job) => number(job.JobPrio) },
    { title: "Submitted", order: "QDate", value: (job) => when(job.QDate) },
    { title: "What", wide: true, value: what },
  ], jobs, { sorted: order, sort: (by) => set({ order: by }) }) : empty();
  return [
    element("h1", {}, `Jobs at ${totals.schedd}`), ...batchTable(batches), states(words, totals, set), filters(words, set),
    bulk(jobs, constraint.map((one) => `(${one})`).join(" && "), count), shown, pages("jobs", words, next),
  ];
}

function empty() {
  return element("p", {}, "The queue is empty. ", element("a", { href: address("submit") }, "Submit jobs here"), ", or with ", element("code", {}, "slotwise submit FILE"), "; jobs that have ended are in the ", element("a", { href: address("history") }, "history"), ".");
}

export async function historyPage() {
  const { words } = place();
  asked("history", words);
  const { rows: jobs, next } = await askPage(`${API}/history?${query({ constraint: constraintsOf(words), projection: COLUMNS, limit: ROWS, after: words.after })}`);
  const set = (changed) => go("history", { ...words, after: "", ...changed });
  const chips = element("p", { class: "tools", role: "group", "aria-label": "Jobs by how they left" }, ...[["", "all"], ["4", "completed"], ["3", "removed"]].map(([state, name]) => chip(name, (words.state || "") === state, () => set({ state }))));
  return [
    element("h1", {}, "Jobs that have left the queue"), chips, filters(words, set),
    jobs.length ? table(`${several(jobs.length, "job", "jobs")} on this page, the newest first`, [
      { title: "Job", value: jobLink },
      { title: "Owner", value: (job) => job.Owner },
      { title: "State", value: (job) => STATUS[job.JobStatus] || job.JobStatus },
      { title: "Left", value: (job) => when(job.CompletionDate || job.EnteredCurrentStatus) },
      { title: "Submitted", value: (job) => when(job.QDate) },
      { title: "Ran", number: true, value: (job) => duration(job.RemoteWallClockTime || 0) },
      { title: "Starts", number: true, value: (job) => number(job.NumJobStarts || 0) },
      { title: "How it ended", wide: true, value: (job) => (job.JobStatus === 3 ? job.RemoveReason || "" : ended(job)) },
      { title: "Where", value: (job) => job.LastRemoteHost || "" },
      { title: "What", wide: true, value: what },
    ], jobs) : element("p", {}, words.after ? "There are no older ones." : "No job has left the queue yet, or none that is like this."),
    pages("history", words, next),
  ];
}

function pages(page, words, next) {
  if (!next && !words.after) return null;
  const to = (after) => go(page, { ...words, after });
  return element("p", { class: "tools", role: "group", "aria-label": "Pages of the list" },
    element("button", { type: "button", disabled: !words.after, on: { click: () => { trail = []; to(""); } } }, "First page"),
    element("button", { type: "button", disabled: !words.after || !trail.length, on: { click: () => to(trail.pop()) } }, "Previous page"),
    element("button", { type: "button", disabled: !next, on: { click: () => { trail.push(words.after || ""); to(next); } } }, "Next page"));
}

const chip = (name, pressed, click) => element("button", { type: "button", "aria-pressed": String(pressed), class: pressed ? "primary" : null, on: { click } }, name);

function states(words, totals, set) {
  const all = totals.all;
  return element("p", { class: "tools", role: "group", "aria-label": "Jobs by state" },
    ...[["", "all", all.jobs], ["1", "idle", all.idle], ["2", "running", all.running], ["5", "on hold", all.held], ["7", "suspended", all.suspended], ["4", "completed", all.completed]].map(([state, name, count]) => chip(`${name} ${number(count)}`, (words.state || "") === state, () => set({ state }))),
    session.signedIn ? chip("only mine", Boolean(words.mine), () => set({ mine: words.mine ? "" : "1" })) : null,
    element("a", { href: address("submit"), class: "button" }, "Submit jobs"));
}

function filters(words, set) {
  const owner = element("input", { type: "search", id: "owner", value: words.owner || "", placeholder: "owner", "aria-label": "Owner of the jobs", class: "short" });
  const search = element("input", { type: "search", id: "constraint", value: words.constraint || "", placeholder: 'a condition: RequestMemory > 4000 && JobBatchName == "sweep"', "aria-label": "Condition on jobs" });
  return element("form", { class: "tools", role: "search", on: { submit: (event) => {
    event.preventDefault();
    set({ owner: owner.value.trim(), constraint: search.value.trim() });
  } } }, owner, search, element("button", { class: "primary" }, "Select"));
}

// ---- choosing, and doing something to those that are chosen

function choose(job) {
  const id = ofRow(job);
  return element("input", { type: "checkbox", "aria-label": `Choose job ${id}`, checked: chosen.has(id), "data-job": id, on: { change: (event) => {
    if (event.target.checked) chosen.add(id); else chosen.delete(id);
    recount();
  } } });
}

function chooseAll(jobs) {
  return element("input", { type: "checkbox", "aria-label": "Choose all jobs of this page", on: { change: (event) => {
    for (const job of jobs) if (event.target.checked) chosen.add(ofRow(job)); else chosen.delete(ofRow(job));
    for (const box of document.querySelectorAll("input[data-job]")) box.checked = chosen.has(box.dataset.job);
    recount();
  } } });
}

function recount(within = document) {
  const told = within.querySelector("#chosen");
  if (told) told.textContent = chosen.size ? `${several(chosen.size, "job is", "jobs are")} chosen` : "Choose jobs, or all that are selected above";
  for (const one of within.querySelectorAll("button[data-act]")) one.disabled = Boolean(cannot()) || (!chosen.size && !within.querySelector("#whole")?.checked);
}

view.held = () => chosen.size > 0 && place().page === "jobs";

function bulk(jobs, constraint, count) {
  if (!jobs.length) return null;
  const why = cannot();
  const whole = element("input", { type: "checkbox", id: "whole", on: { change: () => recount() } });
  const made = element("p", { class: "tools bulk", role: "group", "aria-label": "What to do with chosen jobs" }, element("span", { id: "chosen", class: "quiet", role: "status" }),
    ...["hold", "release", "remove"].map((action) => element("button", { type: "button", "data-act": action, class: action === "remove" ? "danger" : null, title: why || null, on: { click: () => actOnMany(action, whole.checked ? constraint || "true" : null, count) } }, action)),
    count === null ? null : element("label", { for: "whole" }, whole, ` all ${number(count)} selected`));
  recount(made);
  return made;
}

async function actOnMany(action, constraint, count) {
  const ids = [...chosen];
  const those = constraint ? (count === null ? "all selected jobs" : several(count, "selected job", "selected jobs")) : several(ids.length, "job", "jobs");
  const named = constraint ? "Those of other users stay as they are, unless you are a queue superuser." : ids.slice(0, 12).join(", ") + (ids.length > 12 ? ` and ${number(ids.length - 12)} further ones` : "");
  const why = await confirmed(`${action} ${those}?`, { text: named, label: action === "release" ? "" : "Why (it is kept with the jobs)", button: action, danger: action === "remove" });
  if (why === null) return;
  try {
    const result = await change(`${API}/jobs/act`, { action, reason: why, results: true, ...(constraint ? { constraint } : { jobs: ids }) });
    const { jobs: each, ...totals } = result;
    const said = Object.entries(totals).map(([key, of]) => `${number(of)} ${RESULTS[key] || asWords(key)}`).join(", ") || "there was nothing to do";
    const failed = Object.entries(each).filter(([, one]) => one !== "success");
    if (failed.length) told(`${action}: ${said}`, table("Jobs that stay as they were", [{ title: "Job", value: ([id]) => id }, { title: "", wide: true, value: ([, one]) => RESULTS[one] || asWords(one) }], failed));
    else say(`${action}: ${said}`);
    chosen.clear();
  } catch (error) { say(error.message); }
  view.refresh();
}

// ---- batches: a bar of what has become of their jobs

function batchTable({ batches, left_out: further }) {
  if (!batches.length) return [];
  const of = (batch, status) => batch.counts[status] || 0;
  const caption = `${several(batches.length, "batch", "batches")}${further ? `, and ${number(further)} further ones` : ""}`;
  return [element("h2", {}, session.signedIn ? "Your batches" : "Batches"), table(caption, [
    { title: "Batch", value: (batch) => batch.name },
    ...(session.signedIn ? [] : [{ title: "User", value: (batch) => batch.user }]),
    { title: "Progress", value: progress },
    { title: "Done", number: true, value: (batch) => (batch.done === null ? number(of(batch, 4)) : `${number(batch.done)} of ${number(batch.submitted)}`) },
    { title: "Running", number: true, value: (batch) => number(of(batch, 2) + of(batch, 6)) },
    { title: "Idle", number: true, value: (batch) => number(of(batch, 1)) },
    { title: "On hold", number: true, value: (batch) => number(of(batch, 5)) },
    { title: "", value: (batch) => element("button", { type: "button", on: { click: () => select(batch) } }, "show jobs") },
  ], batches)];
}

function progress(batch) {
  const of = (...states) => states.reduce((sum, status) => sum + (batch.counts[status] || 0), 0);
  const whole = batch.submitted ?? batch.jobs;
  const parts = [[4, "done", batch.done ?? of(4)], [2, "running", of(2, 6, 7)], [5, "on hold", of(5)], [1, "idle", of(1)]].filter(([, , count]) => count > 0);
  const words = parts.map(([, name, count]) => `${number(count)} ${name}`).join(", ");
  const strip = element("div", { class: "bar parts", role: "img", "aria-label": words, title: words });
  for (const [state, , count] of parts.filter(([status]) => status !== 1)) {
    const part = element("i", { class: state === 4 ? "state-done" : `state-${state}` });
    part.style.width = share(count, whole);
    strip.append(part);
  }
  return strip;
}

function select(batch) {
  // A batch without a name of its own is that of its program.
  const named = `(JobBatchName ?: replace("^.*/", Cmd, "")) == ${quoted(batch.name)}`;
  go("jobs", { constraint: named, owner: batch.user || "" });
}
