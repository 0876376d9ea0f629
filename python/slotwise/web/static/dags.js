// DAGs: those in the queue and those that ended of late, and one of them as a graph whose wide levels are boxes of many
// nodes.

import { API, ask, askPage, query } from "./api.js";
import { cards, drawn, element, table } from "./dom.js";
import { STATUS, duration, now, number, several, share, when } from "./words.js";
import { address, place } from "./view.js";

const IS_DAG = "JobUniverse == 7 && DAG_NodesTotal isnt undefined";
const COLUMNS = "ClusterId,Owner,JobStatus,EnteredCurrentStatus,QDate,CompletionDate,JobBatchName,HoldReason,ExitCode,RemoveReason,DAGManJobId,DAG_NodesTotal,DAG_NodesDone,DAG_NodesFailed,DAG_NodesQueued,DAG_NodesPrerun,DAG_NodesPostrun,DAG_JobsRunning,DAG_JobsIdle,DAG_JobsHeld,DAG_Status,DAG_InRecovery";
const ROWS = 50, PAST = 15;
const STATES = [["done", "done"], ["submitted", "queued"], ["prerun", "PRE script"], ["postrun", "POST script"], ["ready", "ready"], ["not_ready", "waiting"], ["error", "failed"], ["futile", "futile"]];
const NAMES = Object.fromEntries(STATES);
const WIDE = 132, HIGH = 30, GAP = 14, STEP = 72;

// The box that was chosen, by row and place, and the DAG that it is of.
let chosen = "";
let of = "";

const dagLink = (job) => element("a", { href: address("dag", {}, String(job.ClusterId)) }, `${job.ClusterId} ${job.JobBatchName || ""}`.trim());

function progress(job) {
  const whole = job.DAG_NodesTotal || 0;
  const running = (job.DAG_NodesQueued || 0) + (job.DAG_NodesPrerun || 0) + (job.DAG_NodesPostrun || 0);
  return strip([["done", job.DAG_NodesDone || 0], ["submitted", running], ["error", job.DAG_NodesFailed || 0]], whole, { submitted: "at work" });
}

// A bar whose parts are nodes by state.
function strip(parts, whole, words = {}) {
  const said = parts.filter(([, count]) => count > 0).map(([state, count]) => `${number(count)} ${words[state] || NAMES[state]}`).join(", ") || "nothing yet";
  const made = element("div", { class: "bar parts", role: "img", "aria-label": said, title: said });
  for (const [state, count] of parts) {
    if (!count) continue;
    const part = element("i", { class: `node-${state}` });
    part.style.width = share(count, whole);
    made.append(part);
  }
  return made;
}

function how(job) {
  if (job.JobStatus === 5) return job.HoldReason || "";
  if (job.JobStatus === 3) return job.RemoveReason || "";
  if (job.JobStatus === 4) return job.ExitCode === 0 ? "all nodes are done" : `ended with status ${job.ExitCode}`;
  if (job.DAG_InRecovery) return "takes up what a former runner did";
  if (job.DAG_Status === 6) return "halted";
  return job.DAG_JobsHeld ? `${several(job.DAG_JobsHeld, "job", "jobs")} on hold` : "";
}

export async function dagsPage() {
  const [{ rows: jobs }, { rows: past }] = await Promise.all([
    askPage(`${API}/jobs?${query({ constraint: IS_DAG, projection: COLUMNS, limit: ROWS, order: "-id" })}`),
    askPage(`${API}/history?${query({ constraint: IS_DAG, projection: COLUMNS, limit: PAST })}`),
  ]);
  const columns = [
    { title: "DAG", value: dagLink },
    { title: "Owner", value: (job) => job.Owner },
    { title: "State", value: (job) => element("span", {}, element("i", { class: `dot state-${job.JobStatus}` }), STATUS[job.JobStatus] || job.JobStatus) },
    { title: "Progress", value: progress },
    { title: "Done", number: true, value: (job) => `${number(job.DAG_NodesDone || 0)} of ${number(job.DAG_NodesTotal)}` },
    { title: "Failed", number: true, value: (job) => number(job.DAG_NodesFailed || 0) },
  ];
  const queued = [...columns,
    { title: "Jobs running", number: true, value: (job) => number(job.DAG_JobsRunning || 0) },
    { title: "Idle", number: true, value: (job) => number(job.DAG_JobsIdle || 0) },
    { title: "Since", number: true, value: (job) => duration(now() - (job.EnteredCurrentStatus || job.QDate)) },
    { title: "", wide: true, value: how }];
  const ended = [...columns, { title: "Ended", value: (job) => when(job.CompletionDate || job.EnteredCurrentStatus) }, { title: "How", wide: true, value: how }];
  return [
    element("h1", {}, "DAGs"),
    jobs.length ? table(several(jobs.length, "DAG in the queue", "DAGs in the queue"), queued, jobs) : element("p", {}, "No DAG is in the queue. ", element("code", {}, "slotwise dag submit FILE"), " submits one."),
    ...(past.length ? [element("h2", {}, "Ended of late"), table(several(past.length, "DAG that has ended", "DAGs that have ended"), ended, past)] : []),
  ];
}

export async function dagPage() {
  const cluster = place().rest;
  if (cluster !== of) { chosen = ""; of = cluster; }
  const dag = await ask(`${API}/dags/${encodeURIComponent(cluster)}`);
  const total = Object.values(dag.counts).reduce((sum, count) => sum + count, 0);
  const count = (...states) => states.reduce((sum, state) => sum + (dag.counts[state] || 0), 0);
  const details = element("div", { id: "box", "aria-live": "polite" });
  const graph = picture(dag, (row, column) => {
    chosen = `${row},${column}`;
    for (const one of document.querySelectorAll(".dag g[aria-current]")) one.removeAttribute("aria-current");
    document.querySelector(`.dag g[data-box="${chosen}"]`)?.setAttribute("aria-current", "true");
    details.replaceChildren(...about(dag.rows[row][column]));
  });
  const [row, column] = chosen.split(",").map(Number);
  if (chosen && dag.rows[row]?.[column]) details.replaceChildren(...about(dag.rows[row][column]));
  return [
    element("h1", {}, dag.says),
    cards([["nodes", number(total)], ["done", number(count("done"))], ["at work", number(count("submitted", "prerun", "postrun"))], ["ready or waiting", number(count("ready", "not_ready"))], ["failed", number(count("error"))], ["cannot run", number(count("futile"))]]),
    strip(STATES.map(([state]) => [state, dag.counts[state] || 0]), total),
    dag.end_expected ? element("p", {}, `By the times of its own nodes it ends at about ${when(dag.end_expected)}.`) : null,
    element("p", { class: "tools" }, element("a", { href: address("job", {}, `${cluster}.0`), class: "button" }, "The DAG's own job"),
      element("a", { href: address("jobs", { constraint: `DAGManJobId == ${Number(cluster) || 0}` }), class: "button" }, "Jobs of its nodes"),
      element("a", { href: address("dags"), class: "button" }, "All DAGs")),
    element("ul", { class: "legend" }, ...STATES.filter(([state]) => dag.counts[state]).map(([state, name]) => element("li", {}, element("i", { class: `node-${state}` }), `${name} ${number(dag.counts[state])}`))),
    dag.edges_left_out ? element("p", { class: "quiet" }, `Its ${number(dag.edges_left_out)} dependencies between these boxes are not drawn.`) : null,
    element("div", { class: "scroll dag", tabindex: "0", role: "region", "aria-label": "The DAG, from its first nodes at the top" }, graph), details,
  ];
}

// Boxes in rows, each near its parents, and what they wait for.
function picture(dag, choose) {
  const columns = Math.max(1, ...dag.rows.map((row) => row.length));
  const width = columns * (WIDE + GAP) + GAP, height = dag.rows.length * STEP + 2 * GAP - (STEP - HIGH);
  const at = dag.rows.map((row, level) => row.map((_, column) => [(width - row.length * (WIDE + GAP) + GAP) / 2 + column * (WIDE + GAP), GAP + level * STEP]));
  const lines = dag.edges.map(([upper, from, lower, to]) => {
    const [x, y] = at[upper][from], [below, z] = at[lower][to];
    const half = (y + HIGH + z) / 2;
    return `M${(x + WIDE / 2).toFixed(0)},${y + HIGH}C${(x + WIDE / 2).toFixed(0)},${half} ${(below + WIDE / 2).toFixed(0)},${half} ${(below + WIDE / 2).toFixed(0)},${z}`;
  });
  const boxes = dag.rows.flatMap((row, level) => row.map((box, column) => drawnBox(box, `${level},${column}`, at[level][column], () => choose(level, column))));
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `${number(dag.rows.length)} rows of nodes` },
    drawn("path", { class: "edges", d: lines.join("") }), ...boxes);
}

const said = (box) => STATES.filter(([state]) => box.states[state]).map(([state, name]) => (box.nodes > 1 ? `${number(box.states[state])} ${name}` : name)).join(", ");
const shortened = (text) => (text.length > 17 ? `${text.slice(0, 8)}…${text.slice(-8)}` : text);

function drawnBox(box, key, [x, y], click) {
  let left = x;
  const parts = STATES.filter(([state]) => box.states[state]).map(([state]) => {
    const wide = WIDE * box.states[state] / box.nodes;
    const part = drawn("rect", { class: `node-${state}`, x: left.toFixed(1), y, width: wide.toFixed(1), height: HIGH });
    left += wide;
    return part;
  });
  const open = (event) => {
    if (event.type === "keydown" && event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    click();
  };
  return drawn("g", { tabindex: "0", role: "button", "data-box": key, "aria-current": key === chosen ? "true" : null, "aria-label": `${box.label}: ${said(box)}`, on: { click: open, keydown: open } },
    drawn("title", {}, `${box.label}: ${said(box)}`), ...parts, drawn("rect", { class: "frame", x: x.toFixed(1), y, width: WIDE, height: HIGH, rx: 4 }),
    drawn("text", { x: (x + WIDE / 2).toFixed(1), y: y + 20, class: `on-${box.state}` }, shortened(box.label)));
}

// What is known of a box that was chosen.
function about(box) {
  const names = (list, count) => `${list.join(", ")}${count > list.length ? ` and ${number(count - list.length)} further ones` : ""}`;
  const atWork = ["submitted", "prerun", "postrun"].reduce((sum, state) => sum + (box.states[state] || 0), 0);
  const facts = [["State", said(box)], box.details ? ["Details", box.details] : null,
    box.nodes > 1 && box.failed.length ? ["Failed", names(box.failed, box.states.error || 0)] : null,
    box.nodes > 1 && box.running.length ? ["At work", names(box.running, atWork)] : null,
    box.job ? [box.dag_file ? "DAG" : "Job", element("a", { href: box.dag_file ? address("dag", {}, String(box.job)) : address("job", {}, `${box.job}.0`) }, box.dag_file ? `${box.job} ${box.dag_file}` : String(box.job))] : null];
  return [element("h2", {}, box.label), element("dl", { class: "facts" }, ...facts.filter(Boolean).flatMap(([term, value]) => [element("dt", {}, term), element("dd", {}, value)]))];
}
