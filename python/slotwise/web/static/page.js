// The page of the pool. It asks the HTTP API that programs use, too, and builds its elements from text alone:
// nothing that a user or a host wrote into an ad is ever taken for markup.

const API = "/api/v1";
const STATUS = { 1: "idle", 2: "running", 3: "removed", 4: "completed", 5: "held", 6: "transferring", 7: "suspended" };
const SLOT_STATES = ["claimed", "unclaimed", "matched", "preempting", "owner", "backfill", "drained", "offline", "broken", "other"];
const JOB_COLUMNS = "ClusterId,ProcId,Owner,User,JobStatus,EnteredCurrentStatus,QDate,Cmd,Args,JobBatchName,RequestCpus,RequestMemory,RemoteHost,HoldReason,NumJobStarts,JobPrio";
// Cells of the map; a larger pool has several machines in one.
const CELLS = 2400;
const ROWS = 200;

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
  const [pool, machines] = await Promise.all([ask(`${API}/pool`), ask(`${API}/machines`)]);
  const cores = {};
  for (const machine of machines) for (const [state, count] of Object.entries(machine.cores)) cores[state] = (cores[state] || 0) + count;
  const all = Object.values(cores).reduce((sum, count) => sum + count, 0);
  const states = SLOT_STATES.filter((state) => cores[state]);
  const legend = element("ul", { class: "legend" }, ...states.map((state) =>
    element("li", {}, element("i", { class: state }), `${state}: ${number(cores[state])} cores, ${share(cores[state], all)}`)));
  return [
    element("h1", {}, pool.Name || "The pool"),
    cards([
      ["machines", number(machines.length)], ["slots", number(pool.HostsTotal)], ["cores", number(all)],
      ["running jobs", number(pool.RunningJobs)], ["idle jobs", number(pool.IdleJobs)], ["cores in use", share(cores.claimed || 0, all)],
    ]),
    element("h2", {}, "Machines"), legend, machineMap(machines),
  ];
}

function machineMap(machines) {
  const each = Math.max(1, Math.ceil(machines.length / CELLS));
  const grid = element("div", { class: "grid", role: "group", "aria-label": "Machines by the state of their cores" });
  grid.style.setProperty("--cell", machines.length > 600 ? "14px" : "22px");
  for (let first = 0; first < machines.length; first += each) {
    const group = machines.slice(first, first + each);
    const cores = {};
    for (const machine of group) for (const [state, count] of Object.entries(machine.cores)) cores[state] = (cores[state] || 0) + count;
    const all = Object.values(cores).reduce((sum, count) => sum + count, 0);
    const name = each === 1 ? group[0].machine : `${group.length} machines from ${group[0].machine}`;
    const words = `${name}: ${Object.entries(cores).map(([state, count]) => `${count} ${state}`).join(", ")}`;
    const cell = element("a", { href: `#/machine/${encodeURIComponent(group[0].machine)}`, title: words, "aria-label": words });
    for (const state of SLOT_STATES) {
      if (!cores[state]) continue;
      const part = element("i", { class: state });
      part.style.height = share(cores[state], all);
      cell.append(part);
    }
    grid.append(cell);
  }
  return grid;
}

async function machinePage(name) {
  const quoted = JSON.stringify(name);
  const slots = await ask(`${API}/slots?${query({ constraint: `Machine == ${quoted}`, limit: 1000 })}`);
  const shown = ["OpSysAndVer", "Arch", "TotalCpus", "TotalMemory", "TotalLoadAvg", "CondorVersion", "Start", "Rank", "Requirements", "EnforcementGaps"];
  const first = slots[0] || {};
  return [
    element("h1", {}, name),
    table(`${slots.length} slots`, [
      { title: "Slot", value: (slot) => slot.Name },
      { title: "State", value: (slot) => slot.State },
      { title: "Activity", value: (slot) => slot.Activity },
      { title: "Since", value: (slot) => duration(now() - (slot.EnteredCurrentActivity || now())) },
      { title: "Cores", number: true, value: (slot) => number(slot.Cpus) },
      { title: "Memory (MB)", number: true, value: (slot) => number(slot.Memory) },
      { title: "Load", number: true, value: (slot) => (typeof slot.LoadAvg === "number" ? slot.LoadAvg.toFixed(2) : "") },
      { title: "Job", value: (slot) => slot.JobId || "" },
      { title: "User", value: (slot) => slot.RemoteUser || "" },
      { title: "Broken", wide: true, value: (slot) => slot.SlotBrokenReason || "" },
    ], slots),
    element("h2", {}, "The machine, and its policy"),
    attributes(Object.fromEntries(shown.filter((key) => key in first).map((key) => [key, first[key]]))),
  ];
}

function attributes(ad) {
  return table("Attributes", [
    { title: "Name", value: ([key]) => key },
    { title: "Value", wide: true, value: ([, value]) => (typeof value === "string" ? value : JSON.stringify(value)) },
  ], Object.entries(ad).sort(([one], [other]) => one.localeCompare(other)));
}

// ---- jobs

const jobsAsked = { constraint: "", state: "" };

async function jobsPage() {
  const parts = [];
  if (jobsAsked.state) parts.push(`JobStatus == ${jobsAsked.state}`);
  if (jobsAsked.constraint) parts.push(`(${jobsAsked.constraint})`);
  const constraint = parts.join(" && ");
  const [jobs, totals] = await Promise.all([
    ask(`${API}/jobs?${query({ constraint, projection: JOB_COLUMNS, limit: ROWS })}`),
    ask(`${API}/totals?${query({ constraint })}`),
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
    element("h1", {}, `Jobs at ${totals.schedd}`), chips, form,
    table(`${number(totals.selected.jobs)} jobs${totals.selected.jobs > jobs.length ? `, the first ${jobs.length} of them` : ""}`, [
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
    element("h2", {}, "Its life"), timeline(ad),
  ];
  if (status === 1) parts.push(element("h2", {}, "Why it does not run"), await why(name));
  if (status === 2) parts.push(element("h2", {}, "Output"), await output(name));
  parts.push(element("h2", {}, "Its ad"), attributes(ad));
  return parts;
}

function timeline(ad) {
  const steps = [[ad.QDate, 1, "queued"]];
  if (ad.JobStartDate) steps.push([ad.JobStartDate, 2, "first started"]);
  if (ad.JobCurrentStartDate && ad.JobCurrentStartDate !== ad.JobStartDate) steps.push([ad.JobCurrentStartDate, 2, "last started"]);
  if (ad.LastVacateTime && ad.LastVacateTime > (ad.JobStartDate || 0)) steps.push([ad.LastVacateTime, 1, "vacated"]);
  if (ad.EnteredCurrentStatus) steps.push([ad.EnteredCurrentStatus, ad.JobStatus, STATUS[ad.JobStatus]]);
  steps.sort(([one], [other]) => one - other);
  const end = [3, 4].includes(ad.JobStatus) ? ad.EnteredCurrentStatus : now();
  const whole = Math.max(1, end - ad.QDate);
  const bar = element("div", { class: "timeline", "aria-hidden": "true" });
  steps.forEach(([at, state], place) => {
    const part = element("i", { class: `state-${state}` });
    part.style.width = share(Math.max(0, (place + 1 < steps.length ? steps[place + 1][0] : end) - at), whole);
    bar.append(part);
  });
  const rows = steps.map(([at, , what]) => element("li", {}, `${when(at)}  ${what}`));
  return element("div", {}, bar, element("ol", {}, ...rows),
    element("p", { class: "quiet" }, `${number(ad.NumJobStarts || 0)} starts, ${duration(ad.RemoteWallClockTime || 0)} of wall clock time in ended runs`));
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
        return element("div", { class: "bar", role: "img", "aria-label": `${clause.passes} of ${all} slots` }, bar);
      } },
      { title: "Pass", number: true, value: (clause) => number(clause.passes) },
      { title: "Without it", number: true, value: (clause) => number(clause.without) },
      { title: "Condition", wide: true, value: (clause) => element("code", {}, String(clause.clause)) },
    ], clauses) : null);
}

async function output(name) {
  const shown = element("pre", { tabindex: "0", "aria-label": "Standard output" });
  try { shown.textContent = await ask(`${API}/jobs/${name}/stdout`) || "(nothing yet)"; } catch (error) { shown.textContent = error.message; }
  return shown;
}

// ---- users and cycles

async function usersPage() {
  const ads = await ask(`${API}/accounting`);
  const users = ads.filter((ad) => !ad.IsAccountingGroup).sort((one, other) => (other.WeightedResourcesUsed || 0) - (one.WeightedResourcesUsed || 0));
  const groups = ads.filter((ad) => ad.IsAccountingGroup);
  const most = Math.max(1, ...users.map((ad) => ad.WeightedResourcesUsed || 0));
  const used = (ad, whole) => {
    const bar = element("i");
    bar.style.width = share(ad.WeightedResourcesUsed || 0, whole);
    return element("div", { class: "bar", role: "img", "aria-label": `${ad.WeightedResourcesUsed || 0} in use` }, bar);
  };
  const columns = [
    { title: "Name", value: (ad) => ad.Name },
    { title: "In use", value: (ad) => used(ad, most) },
    { title: "Cores", number: true, value: (ad) => number(ad.WeightedResourcesUsed) },
    { title: "Priority", number: true, value: (ad) => (typeof ad.Priority === "number" ? ad.Priority.toFixed(2) : "") },
    { title: "Factor", number: true, value: (ad) => number(ad.PriorityFactor) },
    { title: "Usage (hours)", number: true, value: (ad) => number(Math.round((ad.WeightedAccumulatedUsage || 0) / 3600)) },
    { title: "Group", value: (ad) => ad.AccountingGroup || "" },
  ];
  const parts = [element("h1", {}, "Users"), table(`${users.length} submitters`, columns, users)];
  if (groups.length) parts.push(element("h2", {}, "Groups"), table(`${groups.length} accounting groups`, [
    { title: "Name", value: (ad) => ad.Name },
    { title: "In use of its quota", value: (ad) => used(ad, ad.EffectiveQuota || ad.ConfigQuota || most) },
    { title: "Cores", number: true, value: (ad) => number(ad.WeightedResourcesUsed) },
    { title: "Quota", number: true, value: (ad) => number(ad.ConfigQuota) },
    { title: "Effective quota", number: true, value: (ad) => number(ad.EffectiveQuota) },
    { title: "Asked for", number: true, value: (ad) => number(ad.Requested) },
  ], groups));
  return parts;
}

async function cyclePage() {
  let cycle;
  try { cycle = await ask(`${API}/cycle`); } catch (error) {
    if (error.status === 404) return [element("h1", {}, "Negotiation"), element("p", {}, error.message)];
    throw error;
  }
  const flat = Object.entries(cycle).filter(([, value]) => typeof value !== "object");
  const lists = Object.entries(cycle).filter(([, value]) => Array.isArray(value) && value.length && typeof value[0] === "object");
  return [
    element("h1", {}, "The last negotiation cycle"),
    element("p", { class: "quiet" }, `Cycle ${cycle.cycle ?? ""}, begun ${when(cycle.started_at)}`),
    cards(flat.filter(([name, value]) => typeof value === "number" && !["cycle", "started_at"].includes(name)).slice(0, 12).map(([name, value]) =>
      (name.endsWith("_s") ? [`${name.slice(0, -2)} (ms)`, (1000 * value).toFixed(1)] : [name.replaceAll("_", " "), number(value)]))),
    ...lists.flatMap(([name, rows]) => {
      const keys = Object.keys(rows[0]).filter((key) => typeof rows[0][key] !== "object").slice(0, 9);
      return [element("h2", {}, name.replaceAll("_", " ")), table(rows.length === 1 ? "one row" : `${rows.length} rows`, keys.map((key) => ({
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
  const scrolled = [...main.querySelectorAll("pre")].map((one) => one.scrollTop);
  main.replaceChildren(...parts.filter(Boolean));
  [...main.querySelectorAll("pre")].forEach((one, place) => { one.scrollTop = scrolled[place] ?? one.scrollHeight; });
  document.title = `${main.querySelector("h1")?.textContent || "Slotwise"} - Slotwise`;
  if (moved) main.focus();
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
