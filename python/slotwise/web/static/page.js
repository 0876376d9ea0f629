// The page of the pool. It asks the HTTP API that programs use, too, and builds its elements from text alone:
// nothing that a user or a host wrote into an ad is ever taken for markup.

const API = "/api/v1";
const STATUS = { 1: "idle", 2: "running", 3: "removed", 4: "completed", 5: "held", 6: "transferring", 7: "suspended" };
const SLOT_STATES = ["claimed", "unclaimed", "matched", "preempting", "owner", "backfill", "drained", "offline", "broken", "other"];
const JOB_COLUMNS = "ClusterId,ProcId,Owner,User,JobStatus,EnteredCurrentStatus,QDate,Cmd,Args,JobBatchName,RequestCpus,RequestMemory,RemoteHost,HoldReason,NumJobStarts,JobPrio";
// Cells of the map; a larger pool has several machines in one.
const CELLS = 2400;
const ROWS = 200;
const BATCHES = 12;

const main = document.getElementById("main");
const said = document.getElementById("said");
let signedIn = false;
let refreshing = 0;
let quietly = 0;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function say(text) {
  said.textContent = text;
  clearTimeout(quietly);
  quietly = setTimeout(() => { said.textContent = ""; }, 6000);
}

async function ask(path, options = {}) {
  const headers = { "x-slotwise-request": "page", ...(options.headers || {}) };
  const reply = await fetch(path, { ...options, headers, credentials: "same-origin" });
  if (!reply.ok) {
    let problem = {};
    try { problem = await reply.json(); } catch { /* no JSON: the status has to do */ }
    const words = problem.detail || `${reply.status} ${reply.statusText}`;
    const error = new Error(problem.hint ? `${words} (${problem.hint})` : words);
    error.status = reply.status;
    throw error;
  }
  return (reply.headers.get("content-type") || "").includes("json") ? reply.json() : reply.text();
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined)).toString();
const number = (value) => (typeof value === "number" ? value.toLocaleString("en") : "");
const share = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : "0%");

function duration(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, "0");
  return `${Math.floor(left / 86400)}+${two(Math.floor(left / 3600) % 24)}:${two(Math.floor(left / 60) % 60)}:${two(left % 60)}`;
}

const when = (epoch) => (epoch ? new Date(epoch * 1000).toLocaleString("sv") : "");
const now = () => Date.now() / 1000;
const several = (count, one, more) => `${number(count)} ${count === 1 ? one : more}`;

function table(caption, columns, rows) {
  const head = element("tr", {}, ...columns.map((column) => element("th", { scope: "col", class: column.number ? "number" : null }, column.title)));
  const body = rows.map((row) => element("tr", {}, ...columns.map((column) => {
    const value = column.value(row);
    return element("td", { class: column.number ? "number" : column.wide ? "wide" : null }, value === undefined || value === null ? "" : value);
  })));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)));
}

function cards(values) {
  return element("ul", { class: "cards" }, ...values.map(([title, value]) => element("li", {}, element("strong", {}, value), element("span", {}, title))));
}

// ---- the pool

async function poolPage() {
  const [pool, map, users, demand] = await Promise.all([ask(`${API}/pool`), ask(`${API}/machines?limit=${CELLS}`), ask(`${API}/accounting?limit=500`).catch(() => []), ask(`${API}/demand`).catch(() => null)]);
  const cores = map.whole.cores;
  const all = Object.values(cores).reduce((sum, count) => sum + count, 0);
  const states = SLOT_STATES.filter((state) => cores[state]);
  const legend = element("ul", { class: "legend" }, ...states.map((state) =>
    element("li", {}, element("i", { class: state }), `${state}: ${number(cores[state])} cores, ${share(cores[state], all)}`)));
  return [
    element("h1", {}, pool.Name || "The pool"),
    cards([
      ["machines", number(map.whole.machines)], ["slots", number(map.whole.slots)], ["cores", number(all)],
      ["running jobs", number(pool.RunningJobs)], ["idle jobs", number(pool.IdleJobs)], ["cores in use", share(cores.claimed || 0, all)],
    ]),
    element("h2", {}, "Machines"), legend, machineMap(map.cells),
    ...usersAtAGlance(users, all), ...unmetDemand(demand),
  ];
}

// What idle jobs ask for and did not get in the last cycle, by the shape of what they ask for.
function unmetDemand(demand) {
  if (!demand || !demand.jobs) return [];
  const shapes = demand.shapes.slice(0, 10);
  const most = Math.max(...shapes.map((shape) => shape.jobs));
  const caption = `${several(demand.jobs, "job", "jobs")} of ${several(demand.submitters, "submitter", "submitters")} found no slot in the last cycle${demand.limited_jobs ? `; quotas and limits hold ${number(demand.limited_jobs)} of them back` : ""}`;
  return [element("h2", {}, "Unmet demand"), table(caption, [
    { title: "Cores", number: true, value: (shape) => number(shape.cpus) },
    { title: "Memory (MB)", number: true, value: (shape) => number(shape.memory_mib) },
    { title: "Disk (MB)", number: true, value: (shape) => number(shape.disk_mib) },
    { title: "GPUs", number: true, value: (shape) => number(shape.gpus) },
    { title: "Jobs", value: (shape) => bar(shape.jobs, most, { of: "of the commonest" }) },
    { title: "", number: true, value: (shape) => number(shape.jobs) },
    { title: "Oldest waits", number: true, value: (shape) => duration(shape.oldest_wait_s) },
    { title: "Why", wide: true, value: (shape) => Object.entries(shape.reasons).map(([why, count]) => `${number(count)} ${why.replaceAll("_", " ")}`).join(", ") },
  ], shapes)];
}

// Who uses what, against the share that the priority factors of those who want something give.
function usersAtAGlance(ads, all) {
  const users = ads.filter((ad) => !ad.IsAccountingGroup && ((ad.WeightedResourcesUsed || 0) > 0 || (ad.Requested || 0) > 0))
    .sort((one, other) => (other.WeightedResourcesUsed || 0) - (one.WeightedResourcesUsed || 0));
  if (!users.length) return [];
  // Shares are among all of them, not among those who are shown.
  const weights = users.reduce((sum, ad) => sum + 1 / (ad.Priority || 1), 0);
  const shown = users.slice(0, 10);
  const caption = users.length > shown.length ? `The ${shown.length} of ${number(users.length)} submitters with the most in use` : several(users.length, "submitter", "submitters");
  return [element("h2", {}, "Who uses the pool"), table(caption, [
    { title: "Name", value: (ad) => ad.Name },
    { title: "In use, and the share that is due (line)", value: (ad) => bar(ad.WeightedResourcesUsed || 0, all, { due: all * (1 / (ad.Priority || 1)) / weights, of: "cores of the pool" }) },
    { title: "Cores", number: true, value: (ad) => number(ad.WeightedResourcesUsed || 0) },
    { title: "Of the pool", number: true, value: (ad) => share(ad.WeightedResourcesUsed || 0, all) },
  ], shown)];
}

function bar(part, whole, { due = null, of = "", over = false } = {}) {
  const filled = element("i", { class: over ? "over" : null });
  filled.style.width = share(Math.min(part, whole), whole);
  const parts = [filled];
  let words = `${number(part)} of ${number(Math.round(10 * whole) / 10)} ${of}`.trim();
  if (due !== null) {
    const line = element("b");
    line.style.left = share(Math.min(due, whole), whole);
    parts.push(line);
    words += `, due ${number(Math.round(due))}`;
  }
  return element("div", { class: "bar", role: "img", "aria-label": words, title: words }, ...parts);
}

function machineMap(cells) {
  const grid = element("div", { class: "grid", role: "group", "aria-label": "Machines by the state of their cores" });
  grid.style.setProperty("--cell", cells.length > 600 ? "14px" : "22px");
  for (const one of cells) {
    const all = Object.values(one.cores).reduce((sum, count) => sum + count, 0);
    const name = one.machines === 1 ? one.machine : `${one.machines} machines from ${one.machine}`;
    const words = `${name}: ${Object.entries(one.cores).map(([state, count]) => `${count} ${state}`).join(", ")}`;
    const cell = element("a", { href: `#/machine/${encodeURIComponent(one.machine)}`, title: words, "aria-label": words });
    for (const state of SLOT_STATES) {
      if (!one.cores[state]) continue;
      const part = element("i", { class: state });
      part.style.height = share(one.cores[state], all);
      cell.append(part);
    }
    grid.append(cell);
  }
  return grid;
}

const POLICY = ["Start", "Rank", "Requirements", "Suspend", "Continue", "Preempt", "Kill", "WithinResourceLimits", "Draining", "DrainReason", "ExpectedMachineGracefulDrainingCompletion", "ExpectedMachineGracefulDrainingBadput", "EnforcementGaps"];
const HOST = ["OpSysAndVer", "Arch", "TotalCpus", "TotalMemory", "TotalDisk", "TotalGPUs", "TotalLoadAvg", "KeyboardIdle", "CondorVersion", "DaemonStartTime"];

async function machinePage(name) {
  const quoted = JSON.stringify(name);
  const slots = await ask(`${API}/slots?${query({ constraint: `Machine == ${quoted}`, limit: 1000 })}`);
  const first = slots.find((slot) => slot.PartitionableSlot) || slots[0] || {};
  const drains = slots.some((slot) => slot.Draining === true || slot.State === "Drained");
  const some = (keys) => Object.fromEntries(keys.filter((key) => key in first).map((key) => [key, first[key]]));
  const button = drains
    ? element("button", { type: "button", disabled: !signedIn, title: signedIn ? null : "Sign in first", on: { click: () => drain(name, "DELETE") } }, "take back into service")
    : element("button", { type: "button", class: "danger", disabled: !signedIn, title: signedIn ? null : "Sign in first", on: { click: () => drain(name, "POST") } }, "drain");
  return [
    element("h1", {}, name),
    slots.length ? element("p", { class: "tools" }, element("strong", {}, drains ? "drains" : "in service"), first.DrainReason && drains ? element("span", { class: "quiet" }, first.DrainReason) : null, button) : element("p", {}, "The collector knows no slot of this machine."),
    table(several(slots.length, "slot", "slots"), [
      { title: "Slot", value: (slot) => slot.Name },
      { title: "State", value: (slot) => element("span", {}, element("i", { class: `dot ${String(slot.State || "other").toLowerCase()}` }), slot.State) },
      { title: "Activity", value: (slot) => slot.Activity },
      { title: "Since", number: true, value: (slot) => duration(now() - (slot.EnteredCurrentActivity || now())) },
      { title: "Cores", number: true, value: (slot) => number(slot.Cpus) },
      { title: "Memory (MB)", number: true, value: (slot) => number(slot.Memory) },
      { title: "Load", number: true, value: (slot) => (typeof slot.LoadAvg === "number" ? slot.LoadAvg.toFixed(2) : "") },
      { title: "Job", value: (slot) => (slot.JobId ? element("a", { href: `#/job/${slot.JobId}` }, slot.JobId) : "") },
      { title: "User", value: (slot) => slot.RemoteUser || "" },
      { title: "Broken", wide: true, value: (slot) => slot.SlotBrokenReason || "" },
    ], slots),
    element("h2", {}, "Its policy"), attributes(some(POLICY)),
    element("h2", {}, "The machine"), attributes(some(HOST)),
  ];
}

async function drain(machine, method) {
  let body;
  if (method === "POST") {
    const reason = prompt(`Why is ${machine} drained? Its jobs keep their retirement time, and no others start.`, "");
    if (reason === null) return;
    body = JSON.stringify({ reason, schedule: "graceful" });
  }
  try {
    await ask(`${API}/machines/${encodeURIComponent(machine)}/drain`, { method, body });
    say(method === "POST" ? "the machine drains" : "the machine is in service again");
  } catch (error) { say(error.message); }
  show();
}

function attributes(ad) {
  return table("Attributes", [
    { title: "Name", value: ([key]) => key },
    { title: "Value", wide: true, value: ([, value]) => (typeof value === "string" ? value.replace(/^\/Expr\((.*)\)\/$/s, "$1") : JSON.stringify(value)) },
  ], Object.entries(ad).sort(([one], [other]) => one.localeCompare(other)));
}

// ---- jobs

const jobsAsked = { constraint: "", state: "" };

async function jobsPage() {
  const parts = [];
  if (jobsAsked.state) parts.push(`JobStatus == ${jobsAsked.state}`);
  if (jobsAsked.constraint) parts.push(`(${jobsAsked.constraint})`);
  const constraint = parts.join(" && ");
  const [jobs, totals, batches] = await Promise.all([
    ask(`${API}/jobs?${query({ constraint, projection: JOB_COLUMNS, limit: ROWS })}`),
    ask(`${API}/totals?${query({ constraint })}`),
    ask(`${API}/batches?${query({ mine: signedIn ? "1" : "", limit: BATCHES })}`),
  ]);
  const search = element("input", { type: "search", id: "constraint", value: jobsAsked.constraint, placeholder: 'Owner == "alice" && RequestMemory > 4000', "aria-label": "Condition on jobs" });
  const form = element("form", { class: "tools", role: "search", on: { submit: (event) => {
    event.preventDefault();
    jobsAsked.constraint = search.value.trim();
    show();
  } } }, search, element("button", { class: "primary" }, "Select"));
  const chips = element("p", { class: "tools", role: "group", "aria-label": "Jobs by state" }, ...[["", "all", totals.all.jobs], [1, "idle", totals.all.idle], [2, "running", totals.all.running], [5, "held", totals.all.held], [7, "suspended", totals.all.suspended], [4, "completed", totals.all.completed]].map(([state, name, count]) =>
    element("button", { type: "button", "aria-pressed": String(jobsAsked.state === state), class: jobsAsked.state === state ? "primary" : null, on: { click: () => { jobsAsked.state = state; show(); } } }, `${name} ${number(count)}`)));
  return [
    element("h1", {}, `Jobs at ${totals.schedd}`), ...batchTable(batches), chips, form,
    table(`${several(totals.selected.jobs, "job", "jobs")}${totals.selected.jobs > jobs.length ? `, the first ${jobs.length} of them` : ""}`, [
      { title: "Job", value: (job) => element("a", { href: `#/job/${job.ClusterId}.${job.ProcId}` }, `${job.ClusterId}.${job.ProcId}`) },
      { title: "Owner", value: (job) => job.Owner },
      { title: "State", value: (job) => STATUS[job.JobStatus] || job.JobStatus },
      { title: "Since", number: true, value: (job) => duration(now() - (job.EnteredCurrentStatus || job.QDate)) },
      { title: "Cores", number: true, value: (job) => number(job.RequestCpus) },
      { title: "Memory (MB)", number: true, value: (job) => number(job.RequestMemory) },
      { title: "Where", value: (job) => job.RemoteHost || "" },
      { title: "What", wide: true, value: (job) => job.HoldReason || job.JobBatchName || `${job.Cmd || ""} ${job.Args || ""}` },
    ], jobs),
  ];
}

// Batches with a bar of what has become of their jobs: done, running, on hold; what is left waits.
function batchTable({ batches, left_out: further }) {
  if (!batches.length) return [];
  const of = (batch, status) => batch.counts[status] || 0;
  const caption = `${several(batches.length, "batch", "batches")}${further ? `, and ${number(further)} further ones` : ""}`;
  return [element("h2", {}, signedIn ? "Your batches" : "Batches"), table(caption, [
    { title: "Batch", value: (batch) => batch.name },
    ...(signedIn ? [] : [{ title: "User", value: (batch) => batch.user }]),
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
  const words = parts.map(([, what, count]) => `${number(count)} ${what}`).join(", ");
  const strip = element("div", { class: "bar parts", role: "img", "aria-label": words, title: words });
  for (const [state, , count] of parts.filter(([status]) => status !== 1)) {
    const part = element("i", { class: state === 4 ? "state-done" : `state-${state}` });
    part.style.width = share(count, whole);
    strip.append(part);
  }
  return strip;
}

function select(batch) {
  const name = JSON.stringify(batch.name);
  // A batch without a name of its own is that of its program.
  jobsAsked.constraint = `(JobBatchName ?: replace("^.*/", Cmd, "")) == ${name}${batch.user ? ` && User == ${JSON.stringify(batch.user)}` : ""}`;
  jobsAsked.state = "";
  show();
}

async function act(job, action) {
  let reason = "";
  if (action === "hold" || action === "remove") {
    reason = prompt(`Why is job ${job} ${action === "hold" ? "put on hold" : "removed"}?`, "");
    if (reason === null) return;
  }
  try {
    const totals = await ask(`${API}/jobs/act`, { method: "POST", body: JSON.stringify({ action, jobs: [job], reason }) });
    say(totals.success ? `${action}: done` : `${action}: ${Object.keys(totals).join(", ").replaceAll("_", " ") || "nothing was changed"}`);
  } catch (error) { say(error.message); }
  show();
}

async function jobPage(id) {
  const [ad] = await ask(`${API}/jobs/${encodeURIComponent(id)}?limit=1`);
  const status = ad.JobStatus;
  const name = `${ad.ClusterId}.${ad.ProcId}`;
  const buttons = [["hold", [1, 2, 6, 7]], ["release", [5]], ["remove", [1, 2, 5, 6, 7]]].filter(([, states]) => states.includes(status)).map(([action]) =>
    element("button", { type: "button", class: action === "remove" ? "danger" : null, disabled: !signedIn, title: signedIn ? null : "Sign in first", on: { click: () => act(name, action) } }, action));
  const parts = [
    element("h1", {}, `Job ${name} of ${ad.User || ad.Owner}`),
    element("p", { class: "tools" }, element("strong", {}, STATUS[status] || String(status)),
      element("span", { class: "quiet" }, `for ${duration(now() - (ad.EnteredCurrentStatus || ad.QDate))}`), ...buttons),
    ad.HoldReason && status === 5 ? element("p", { class: "bad" }, ad.HoldReason) : null,
    element("h2", {}, "Its life"), timeline(ad, await runsOf(name, ad)),
  ];
  if (status === 1) parts.push(element("h2", {}, "Why it does not run"), await why(name));
  if (status === 2) parts.push(element("h2", {}, "Output, as it is written"), await output(name, "stdout"), element("h2", {}, "Errors"), await output(name, "stderr"));
  parts.push(element("h2", {}, "Its ad"), attributes(ad));
  return parts;
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
  steps.forEach(([at, state, what], place) => {
    const length = Math.max(0, (place + 1 < steps.length ? steps[place + 1][0] : end) - at);
    const part = element("i", { class: `state-${state}`, title: `${what}: ${duration(length)}` });
    part.style.width = share(length, whole);
    strip.append(part);
  });
  const rows = steps.map(([at, , what], place) => element("li", {}, element("time", { datetime: new Date(at * 1000).toISOString() }, when(at)), ` ${what}`,
    place + 1 < steps.length ? element("span", { class: "quiet" }, ` for ${duration(steps[place + 1][0] - at)}`) : null));
  const legend = element("ul", { class: "legend" }, ...[[1, "waits"], [2, "runs"], [5, "on hold"]].map(([state, what]) => element("li", {}, element("i", { class: `state-${state}` }), what)));
  return element("div", {}, strip, legend, element("ol", { class: "life" }, ...rows),
    element("p", { class: "quiet" }, `${several(ad.NumJobStarts || 0, "start", "starts")}, ${duration(ad.RemoteWallClockTime || 0)} of wall clock time in ended runs`));
}

async function why(name) {
  let report;
  try { report = await ask(`${API}/jobs/${name}/analyze`); } catch (error) { return element("p", { class: "bad" }, error.message); }
  const clauses = (report.requirements && report.requirements.clauses) || [];
  const all = report.slots || 0;
  return element("div", {}, element("p", {}, String(report.verdict || "")),
    clauses.length ? table(`Conditions, and the slots of ${number(all)} that meet each`, [
      { title: "Slots", value: (clause) => {
        const bar = element("i", { class: clause.passes ? null : "none" });
        bar.style.width = clause.passes ? share(clause.passes, all) : "100%";
        bar.style.minWidth = "2px"; // few of many are not none
        return element("div", { class: "bar", role: "img", "aria-label": `${clause.passes} of ${all} slots` }, bar);
      } },
      { title: "Pass", number: true, value: (clause) => number(clause.passes) },
      { title: "Without it", number: true, value: (clause) => number(clause.without) },
      { title: "Condition", wide: true, value: (clause) => element("code", {}, String(clause.clause)) },
    ], clauses) : null);
}

async function output(name, file) {
  if (!signedIn) return element("p", { class: "quiet" }, "Sign in to read what your jobs write.");
  const shown = element("pre", { tabindex: "0", "aria-label": file === "stdout" ? "Standard output" : "Standard error" });
  try { shown.textContent = await ask(`${API}/jobs/${name}/${file}`) || "(nothing yet)"; } catch (error) { shown.textContent = error.message; }
  return shown;
}

// ---- users and cycles

async function usersPage() {
  const [ads, groups] = await Promise.all([ask(`${API}/accounting?limit=${ROWS + 100}`), ask(`${API}/groups`)]);
  const users = ads.filter((ad) => !ad.IsAccountingGroup).sort((one, other) => (other.WeightedResourcesUsed || 0) - (one.WeightedResourcesUsed || 0));
  const most = Math.max(1, ...users.map((ad) => ad.WeightedResourcesUsed || 0));
  const parts = [element("h1", {}, "Users and groups")];
  const named = groups.filter((ad) => ad.Name && ad.Name !== "<none>").sort((one, other) => one.Name.localeCompare(other.Name));
  if (named.length) parts.push(element("h2", {}, "Groups"), groupTree(named));
  parts.push(element("h2", {}, "Users"), table(several(users.length, "submitter", "submitters"), [
    { title: "Name", value: (ad) => ad.Name },
    { title: "In use", value: (ad) => bar(ad.WeightedResourcesUsed || 0, most, { of: "of the largest" }) },
    { title: "Cores", number: true, value: (ad) => number(ad.WeightedResourcesUsed || 0) },
    { title: "Priority", number: true, value: (ad) => (typeof ad.Priority === "number" ? ad.Priority.toFixed(2) : "") },
    { title: "Factor", number: true, value: (ad) => number(ad.PriorityFactor) },
    { title: "Usage (hours)", number: true, value: (ad) => number(Math.round((ad.WeightedAccumulatedUsage || 0) / 3600)) },
    { title: "Group", value: (ad) => (ad.AccountingGroup && ad.AccountingGroup !== "<none>" ? ad.AccountingGroup : "") },
  ], users));
  return parts;
}

// Groups below those that they belong to; the use of a group is with that of the groups below it.
function groupTree(groups) {
  const within = (ad) => groups.filter((other) => other.Name === ad.Name || other.Name.startsWith(`${ad.Name}.`)).reduce((sum, other) => sum + (other.WeightedResourcesUsed || 0), 0);
  return table("Accounting groups: use, with the groups below, of the quota", [
    { title: "Name", value: (ad) => {
      const level = ad.Name.split(".").length - 1;
      const name = element("span", { class: "level" }, level ? ad.Name.slice(ad.Name.lastIndexOf(".") + 1) : ad.Name);
      name.style.paddingLeft = `${1.4 * level}em`;
      if (level) name.setAttribute("title", ad.Name);
      return name;
    } },
    { title: "Of its quota", value: (ad) => bar(within(ad), Math.max(ad.ConfigQuota || 0, 1e-9), { of: "cores", over: within(ad) > (ad.ConfigQuota || 0) + 0.01 }) },
    { title: "In use", number: true, value: (ad) => number(within(ad)) },
    { title: "Quota", number: true, value: (ad) => number(ad.ConfigQuota) },
    { title: "Now", number: true, value: (ad) => number(ad.EffectiveQuota) },
    { title: "Asked for", number: true, value: (ad) => number(ad.Requested) },
    { title: "Surplus", value: (ad) => ad.SurplusPolicy || "" },
  ], groups);
}

async function pastCycles() {
  const [ad = {}] = await ask(`${API}/negotiators?limit=1`);
  const rows = [];
  for (let place = 0; place < 100 && ad[`LastNegotiationCycleEnd${place}`] !== undefined; place += 1) {
    rows.push((what) => ad[`LastNegotiationCycle${what}${place}`]);
  }
  const ms = (value) => (typeof value === "number" ? (1000 * value).toFixed(1) : "");
  return rows.length ? [element("h2", {}, "The last cycles"), table(`${several(rows.length, "cycle", "cycles")}, the newest first`, [
    { title: "Ended", value: (of) => when(of("End")) },
    { title: "Took (ms)", number: true, value: (of) => ms(of("Duration")) },
    { title: "of it gathering", number: true, value: (of) => ms(of("PrefetchDuration")) },
    { title: "Slots", number: true, value: (of) => number(of("CandidateSlots")) },
    { title: "Idle jobs", number: true, value: (of) => number(of("NumIdleJobs")) },
    { title: "Submitters", number: true, value: (of) => number(of("ActiveSubmitterCount")) },
    { title: "Matches", number: true, value: (of) => number(of("Matches")) },
    { title: "Rejections", number: true, value: (of) => number(of("Rejections")) },
  ], rows)] : [];
}

async function cyclePage() {
  let cycle;
  try { cycle = await ask(`${API}/cycle`); } catch (error) {
    if (error.status === 404) return [element("h1", {}, "Negotiation"), element("p", {}, error.message)];
    throw error;
  }
  const past = await pastCycles();
  const flat = Object.entries(cycle).filter(([, value]) => typeof value !== "object");
  const lists = Object.entries(cycle).filter(([, value]) => Array.isArray(value) && value.length && typeof value[0] === "object");
  return [
    element("h1", {}, "The last negotiation cycle"),
    element("p", { class: "quiet" }, `Cycle ${cycle.cycle ?? ""}, begun ${when(cycle.started_at)}`),
    cards(flat.filter(([name, value]) => typeof value === "number" && !["cycle", "started_at"].includes(name)).slice(0, 12).map(([name, value]) =>
      (name.endsWith("_s") ? [`${name.slice(0, -2)} (ms)`, (1000 * value).toFixed(1)] : [name.replaceAll("_", " "), number(value)]))),
    ...past,
    ...lists.flatMap(([name, rows]) => {
      const keys = Object.keys(rows[0]).filter((key) => typeof rows[0][key] !== "object").slice(0, 9);
      return [element("h2", {}, name[0].toUpperCase() + name.slice(1).replaceAll("_", " ")), table(rows.length === 1 ? "one row" : `${rows.length} rows`, keys.map((key) => ({
        title: key.replaceAll("_", " "), number: typeof rows[0][key] === "number", wide: typeof rows[0][key] === "string",
        value: (row) => (typeof row[key] === "number" ? (Number.isInteger(row[key]) ? number(row[key]) : row[key].toFixed(3)) : String(row[key] ?? "")),
      })), rows.slice(0, ROWS))];
    }),
  ];
}

// ---- which page, and signing in

const PAGES = { pool: poolPage, machine: machinePage, jobs: jobsPage, job: jobPage, users: usersPage, cycle: cyclePage };
// Pages that are asked for anew by themselves, in milliseconds.
const EVERY = { pool: 5000, job: 3000, machine: 5000, cycle: 5000, users: 10000 };

const HOLDERS = "a, button, input, [tabindex]";

// Where the reader is: the element with the keyboard's focus, how far tables are scrolled, and which output is followed.
function placesNow() {
  return {
    focus: [...main.querySelectorAll(HOLDERS)].indexOf(document.activeElement),
    across: [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft),
    down: [...main.querySelectorAll("pre")].map((one) => (one.scrollTop + one.clientHeight >= one.scrollHeight - 8 ? null : one.scrollTop)),
  };
}

// Output whose end was in sight follows it; a reader who has scrolled back stays there.
function placesAgain(before) {
  [...main.querySelectorAll("pre")].forEach((one, place) => { one.scrollTop = before?.down[place] ?? one.scrollHeight; });
  if (!before) return;
  [...main.querySelectorAll(".scroll")].forEach((one, place) => { one.scrollLeft = before.across[place] ?? 0; });
  if (before.focus >= 0) main.querySelectorAll(HOLDERS)[before.focus]?.focus({ preventScroll: true });
}

async function show(moved = false) {
  const [, page = "pool", rest = ""] = location.hash.split("/");
  const known = Object.hasOwn(PAGES, page) ? page : "pool";
  const turn = ++refreshing;
  for (const link of document.querySelectorAll("nav a")) {
    const own = link.getAttribute("href") === `#/${known}` || (known === "job" && link.hash === "#/jobs") || (known === "machine" && link.hash === "#/pool");
    if (own) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  let parts;
  try { parts = await PAGES[known](decodeURIComponent(rest)); } catch (error) {
    parts = [element("h1", {}, "That did not work"), element("p", { class: "bad" }, error.message)];
    if (error.status === 401) parts.push(element("p", {}, element("button", { class: "primary", on: { click: askForToken } }, "Sign in")));
  }
  if (turn !== refreshing) return;
  const before = moved ? null : placesNow();
  main.replaceChildren(...parts.filter(Boolean));
  placesAgain(before);
  document.title = `${main.querySelector("h1")?.textContent || "Slotwise"} - Slotwise`;
  if (moved) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  if (EVERY[known]) setTimeout(() => { if (turn === refreshing && !document.hidden && !main.contains(document.activeElement?.closest("input, .scroll"))) show(); }, EVERY[known]);
}

function askForToken() { document.getElementById("signing").showModal(); }

function showWho() {
  document.getElementById("sign").textContent = signedIn ? "Sign out" : "Sign in";
  document.getElementById("who").textContent = signedIn ? "signed in" : "";
}

async function lookWho() {
  try { signedIn = (await ask(`${API}/pool`)).signed_in; } catch { signedIn = false; }
  showWho();
}

document.getElementById("sign").addEventListener("click", async () => {
  if (!signedIn) { askForToken(); return; }
  await ask(`${API}/session`, { method: "DELETE" });
  signedIn = false;
  showWho();
  show();
});

document.getElementById("signing").addEventListener("close", async (event) => {
  const field = document.getElementById("token");
  const token = field.value.trim();
  field.value = "";
  if (event.target.returnValue !== "go" || !token) return;
  try {
    await ask(`${API}/session`, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    signedIn = true;
    say("signed in");
  } catch (error) { say(error.message); }
  showWho();
  show();
});

window.addEventListener("hashchange", () => show(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden) show(); });
lookWho().then(() => show());
