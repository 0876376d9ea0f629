// One job: what it is, its life, what it writes, and why it does not run.

import { API, ask, cannot, change, session } from "./api.js";
import { bar, cards, confirmed, element, say, table } from "./dom.js";
import { attributes } from "./machine.js";
import { STATUS, bytes, duration, ended, mebibytes, now, number, several, share, valueOf, when } from "./words.js";
import { address, place, view } from "./view.js";

export async function jobPage() {
  const id = place().rest;
  const those = await ask(`${API}/jobs/${encodeURIComponent(id)}?limit=2`);
  const [ad] = those;
  const status = ad.JobStatus;
  const name = `${ad.ClusterId}.${ad.ProcId}`;
  const why = cannot();
  const buttons = [["hold", [1, 2, 6, 7]], ["release", [5]], ["remove", [1, 2, 5, 6, 7]]].filter(([, states]) => states.includes(status)).map(([action]) =>
    element("button", { type: "button", class: action === "remove" ? "danger" : null, disabled: Boolean(why), title: why || null, on: { click: () => act(name, action) } }, action));
  const parts = [
    element("h1", {}, `Job ${name} of ${ad.User || ad.Owner}`),
    those.length > 1 ? element("p", { class: "quiet" }, "The first of its cluster. ", element("a", { href: address("jobs", { constraint: `ClusterId == ${ad.ClusterId}` }) }, "All of its jobs")) : null,
    element("p", { class: "tools" }, element("strong", {}, STATUS[status] || String(status)),
      element("span", { class: "quiet" }, [3, 4].includes(status) ? `${when(ad.CompletionDate || ad.EnteredCurrentStatus)} ${ended(ad)}` : `for ${duration(now() - (ad.EnteredCurrentStatus || ad.QDate))}`), ...buttons),
    ad.HoldReason && status === 5 ? element("p", { class: "bad" }, ad.HoldReason) : null,
    ad.RemoveReason && status === 3 ? element("p", { class: "bad" }, ad.RemoveReason) : null,
  ];
  if (status === 1) parts.push(element("h2", {}, "Why it does not run"), await whyNot(ad, name));
  if (status === 5) parts.push(element("h2", {}, "Why it is on hold"), await whyNot(ad, name));
  if ([2, 6, 7].includes(status)) {
    parts.push(element("h2", {}, "What it writes"), session.signedIn
      ? element("div", { class: "pair" }, await output(name, "stdout", "Output"), await output(name, "stderr", "Errors"))
      : element("p", { class: "quiet" }, "Sign in to read what your jobs write."));
  }
  parts.push(element("h2", {}, "Its life"), timeline(ad, await runsOf(name, ad)),
    element("h2", {}, "What it is"), facts(ad), element("h2", {}, "What it asked for, and took"), resources(ad), wholeAd(ad));
  return parts;
}

async function act(job, action) {
  let reason = "";
  if (action !== "release") {
    reason = await confirmed(`${action} job ${job}?`, { label: "Why (it is kept with the job)", button: action, danger: action === "remove" });
    if (reason === null) return;
  }
  try {
    const totals = await change(`${API}/jobs/act`, { action, jobs: [job], reason });
    say(totals.success ? `${action}: done` : `${action}: ${Object.keys(totals).join(", ").replaceAll("_", " ") || "nothing was changed"}`);
  } catch (error) { say(error.message); }
  view.refresh();
}

const FACTS = [["Program", (ad) => [ad.Cmd, ad.Args || ad.Arguments].filter(Boolean).join(" ")], ["Batch", (ad) => ad.JobBatchName], ["Directory", (ad) => ad.Iwd], ["Output, errors, log", (ad) => [ad.Out, ad.Err, ad.UserLog].filter(Boolean).join(", ")],
  ["Universe", (ad) => (ad.WantDocker ? "docker" : ad.WantContainer ? "container" : valueOf("JobUniverse", ad.JobUniverse))], ["Image", (ad) => ad.ContainerImage || ad.DockerImage], ["Priority", (ad) => number(ad.JobPrio)], ["Accounting group", (ad) => ad.AcctGroup],
  ["Submitted", (ad) => when(ad.QDate)], ["First start", (ad) => when(ad.JobStartDate)], ["Completed", (ad) => when(ad.CompletionDate)], ["Where", (ad) => ad.RemoteHost || ad.LastRemoteHost], ["Starts", (ad) => number(ad.NumJobStarts)]];

function facts(ad) {
  return element("dl", { class: "facts" }, ...FACTS.flatMap(([title, of]) => {
    const value = of(ad);
    return value ? [element("dt", {}, title), element("dd", {}, value)] : [];
  }));
}

function resources(ad) {
  const disk = (value) => (typeof value === "number" ? bytes(value * 1024) : "");
  const wall = (ad.RemoteWallClockTime || 0) + ([2, 6].includes(ad.JobStatus) && ad.JobCurrentStartDate ? now() - ad.JobCurrentStartDate : 0);
  const cpu = (ad.RemoteUserCpu || 0) + (ad.RemoteSysCpu || 0);
  const rows = [["Cores", number(ad.RequestCpus), number(ad.CpusProvisioned), wall && cpu ? number(Math.round(100 * cpu / wall) / 100) : ""],
    ["Memory", mebibytes(ad.RequestMemory) || valueOf("RequestMemory", ad.RequestMemory ?? ""), mebibytes(ad.MemoryProvisioned), mebibytes(ad.MemoryUsage)],
    ["Disk", disk(ad.RequestDisk) || valueOf("RequestDisk", ad.RequestDisk ?? ""), disk(ad.DiskProvisioned), disk(ad.DiskUsage)],
    ["GPUs", number(ad.RequestGPUs), number(ad.GPUsProvisioned), number(ad.GPUsAverageUsage)]].filter(([, asked, got]) => asked || got);
  return element("div", {}, table("Resources", [
    { title: "", value: ([title]) => title }, { title: "Asked for", wide: true, value: ([, asked]) => asked }, { title: "Given", number: true, value: ([, , got]) => got }, { title: "Used", number: true, value: ([, , , used]) => used },
  ], rows), cards([["wall clock time", duration(wall)], ["processor time", duration(cpu)], ["sent to it", ad.BytesRecvd === undefined ? "-" : bytes(ad.BytesRecvd)], ["sent back", ad.BytesSent === undefined ? "-" : bytes(ad.BytesSent)]]));
}

// The whole ad stays open or closed while the page follows the job.
let adIsOpen = false;
function wholeAd(ad) {
  const box = element("details", { open: adIsOpen, on: { toggle: () => { adIsOpen = box.open; } } }, element("summary", {}, `Its whole ad, ${several(Object.keys(ad).length, "attribute", "attributes")}`), attributes(ad));
  return box;
}

// Runs that have ended, asked for again only when there is a new one.
const runsKnown = { of: "", runs: [] };

async function runsOf(name, ad) {
  const of = `${name} ${ad.NumShadowStarts || 0} ${ad.JobStatus}`;
  if (runsKnown.of !== of) {
    let runs = [];
    if (ad.JobStartDate) try { runs = await ask(`${API}/jobs/${name}/runs?limit=50`); } catch { /* the access point keeps none */ }
    Object.assign(runsKnown, { of, runs: runs.filter((run) => run.JobCurrentStartDate && run.EpochWriteDate).reverse() });
  }
  return runsKnown.runs;
}

function timeline(ad, runs) {
  const leaves = [3, 4].includes(ad.JobStatus);
  const end = leaves ? (ad.CompletionDate || ad.EnteredCurrentStatus) : now();
  const steps = [[ad.QDate, 1, "queued"]];
  for (const run of runs) {
    const host = run.LastRemoteHost ? ` on ${run.LastRemoteHost}` : "";
    const why = run.VacateReason || run.HoldReason || (run.ExitCode !== undefined ? `exit code ${run.ExitCode}` : run.ExitSignal !== undefined ? `signal ${run.ExitSignal}` : "");
    steps.push([run.JobCurrentStartDate, 2, `started${host}`]);
    if (run.EpochWriteDate < end) steps.push([run.EpochWriteDate, run.JobStatus === 5 ? 5 : 1, `stopped${why ? `: ${why}` : ""}`]);
  }
  if (!runs.length && ad.JobStartDate && leaves) steps.push([ad.JobCurrentStartDate || ad.JobStartDate, 2, "started"]);
  // A job that has waited since it was queued has one step.
  const waitsOnly = ad.JobStatus === 1 && steps.length === 1 && ad.EnteredCurrentStatus <= ad.QDate + 1;
  if (ad.EnteredCurrentStatus && !waitsOnly && (!leaves || ad.EnteredCurrentStatus >= ad.QDate)) {
    const where = ad.JobStatus === 2 && ad.RemoteHost ? ` on ${ad.RemoteHost}` : "";
    steps.push([ad.EnteredCurrentStatus, ad.JobStatus, `${STATUS[ad.JobStatus] || ad.JobStatus}${where}`]);
  }
  steps.sort(([one], [other]) => one - other);
  const whole = Math.max(1, end - ad.QDate);
  const strip = element("div", { class: "timeline", "aria-hidden": "true" });
  steps.forEach(([at, state, what], index) => {
    const length = Math.max(0, (index + 1 < steps.length ? steps[index + 1][0] : end) - at);
    const part = element("i", { class: `state-${state}`, title: `${what}: ${duration(length)}` });
    part.style.width = share(length, whole);
    strip.append(part);
  });
  const rows = steps.map(([at, , what], index) => element("li", {}, element("time", { datetime: new Date(at * 1000).toISOString() }, when(at)), ` ${what}`,
    index + 1 < steps.length ? element("span", { class: "quiet" }, ` for ${duration(steps[index + 1][0] - at)}`) : null));
  const legend = element("ul", { class: "legend" }, ...[[1, "waits"], [2, "runs"], [5, "on hold"]].map(([state, what]) => element("li", {}, element("i", { class: `state-${state}` }), what)));
  return element("div", {}, strip, legend, element("ol", { class: "life" }, ...rows),
    element("p", { class: "quiet" }, `${several(ad.NumJobStarts || 0, "start", "starts")}, ${duration(ad.RemoteWallClockTime || 0)} of wall clock time in ended runs`));
}

// ---- why it does not run

// What the slots of a pool say to a job: the verdict, hints, and a bar for each of its conditions.
export function report(found, { change: offer = null } = {}) {
  const requirements = found.requirements || {};
  const clauses = requirements.clauses || [];
  const all = found.slots || Math.max(1, ...clauses.map((clause) => clause.passes));
  const relax = requirements.relax;
  // What a held job requires is of no interest before it is released.
  if (found.held) {
    return element("div", { class: "why" }, element("p", {}, String(found.verdict || "")),
      element("p", { class: "quiet" }, `Hold code ${found.held.code}, subcode ${found.held.subcode}.`),
      found.held.action ? element("p", {}, `What to do: ${found.held.action}.`) : null);
  }
  return element("div", { class: "why" }, element("p", {}, String(found.verdict || "")),
    (requirements.valueless || []).length ? element("ul", { class: "hints" }, ...requirements.valueless.map((text) => element("li", {}, text))) : null,
    (requirements.hints || []).length || relax ? element("ul", { class: "hints" },
      ...(requirements.hints || []).map((hint) => element("li", {}, hint.text, offer ? offer(hint) : null)),
      relax ? element("li", {}, `Without the condition `, element("code", {}, relax.clause), `, ${several(relax.slots, "slot", "slots")} would satisfy the job's Requirements.`) : null) : null,
    clauses.length ? table(`Conditions, and the slots of ${number(all)} that meet each`, [
      { title: "Slots", value: (clause) => (clause.passes ? bar(clause.passes, all, { of: "slots" }) : none(all)) },
      { title: "Pass", number: true, value: (clause) => number(clause.passes) },
      { title: "Without it", number: true, value: (clause) => number(clause.without) },
      { title: "Condition", wide: true, value: (clause) => element("code", {}, String(clause.clause)) },
    ], clauses) : null,
    (requirements.refused_by || []).length ? table("What slots refuse it by", [
      { title: "Slots", number: true, value: (row) => number(row.slots) }, { title: "Condition of the slot", wide: true, value: (row) => element("code", {}, row.clause) },
    ], requirements.refused_by) : null,
    (found.rejections || []).length ? element("p", { class: "quiet" }, `The last cycle rejected it: ${found.rejections.map((row) => row.reason).join("; ")}.`) : null);
}

function none(all) {
  const words = `0 of ${number(all)} slots`;
  return element("div", { class: "bar", role: "img", "aria-label": words, title: words }, element("i", { class: "none" }));
}

async function whyNot(ad, name) {
  let found;
  try { found = await ask(`${API}/jobs/${name}/analyze`); } catch (error) { return element("p", { class: "bad" }, error.message); }
  return report(found, { change: (hint) => offered(hint, name) });
}

// A job that asks for more than any slot has can ask for what comes nearest.
function offered(hint, name) {
  const value = hint.nearest?.value ?? hint.among_rest?.value;
  if (!/^Request/i.test(hint.job_attribute || "") || typeof value !== "number" || hint.strict) return null;
  const shown = valueOf(hint.job_attribute, value);
  const why = cannot();
  return element("button", { type: "button", disabled: Boolean(why), title: why || null, on: { click: async () => {
    if (await confirmed(`Let job ${name} ask for ${shown}?`, { text: `${hint.job_attribute} becomes ${value}.`, button: "Change" }) === null) return;
    try {
      const totals = await change(`${API}/jobs/edit`, { jobs: [name], attributes: { [hint.job_attribute]: String(value) } });
      say(totals.success ? `it asks for ${shown} now` : Object.keys(totals).join(", ").replaceAll("_", " "));
    } catch (error) { say(error.message); }
    view.refresh();
  } } }, `ask for ${shown} instead`);
}

async function output(name, file, title) {
  const shown = element("pre", { tabindex: "0", "aria-label": file === "stdout" ? "Standard output" : "Standard error" });
  try { shown.textContent = await ask(`${API}/jobs/${name}/${file}`) || "(nothing yet)"; } catch (error) { shown.textContent = error.message; }
  return element("div", {}, element("h3", {}, title), shown);
}
