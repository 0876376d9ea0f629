// The pool at a glance: its machines, how it was over the last day, who uses it, and what it could not give.

import { API, ask, query } from "./api.js";
import { chart } from "./chart.js";
import { bar, cards, element, table } from "./dom.js";
import { bytes, duration, number, quoted, several, share } from "./words.js";
import { address, go, place } from "./view.js";

export const SLOT_STATES = ["claimed", "unclaimed", "matched", "preempting", "owner", "backfill", "drained", "offline", "broken", "other"];
// Cells of the map; a larger pool has several machines in one. So few have their names in them.
const CELLS = 2400, NAMED = 80, GROUPS = 40;
const GROUPINGS = [["", "not grouped"], ["OpSysAndVer", "by operating system"], ["Arch", "by architecture"], ["TotalCpus", "by cores of the machine"], ["GPUs_DeviceName", "by GPU"]];

export async function poolPage() {
  const { words } = place();
  const constraint = words.find ? `regexp(${quoted(words.find.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"))}, Machine, "i")` : "";
  const [pool, map, users, demand, trend] = await Promise.all([
    ask(`${API}/pool`), ask(`${API}/machines?${query({ limit: CELLS, constraint, group: words.group })}`),
    ask(`${API}/accounting?limit=500`).catch(() => []), ask(`${API}/demand`).catch(() => null), ask(`${API}/trend`).catch(() => ({ samples: [] })),
  ]);
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
    ...(map.cells.length || words.find ? [element("h2", {}, "Machines"), mapTools(words), legend, ...machineMap(map.cells, words)] : firstSteps()),
    element("h2", {}, "The last day"), element("div", { class: "pair" },
      chart("Cores", trend.samples.map((one) => ({ at: one.at, values: one.cores })), SLOT_STATES.map((state) => [state, state, state]), { stacked: true }),
      chart("Jobs", trend.samples.map((one) => ({ at: one.at, values: one.jobs })), [["running", "state-2", "running"], ["idle", "state-1", "idle"], ["held", "state-5", "on hold"]])),
    ...usersAtAGlance(users, all), ...unmetDemand(demand),
  ];
}

function firstSteps() {
  return [element("h2", {}, "No machine has come yet"),
    element("p", {}, "The collector knows no slot. On this host, STARTD in DAEMON_LIST makes one: ", element("code", {}, "slotwise up"), ". On other hosts: ",
      element("code", {}, "slotwise node install --role ep --join HOST"), ". What keeps a machine away is in its log StartLog.")];
}

function mapTools(words) {
  const search = element("input", { type: "search", id: "find", value: words.find || "", placeholder: "part of a machine's name", "aria-label": "Machines whose name has" });
  const grouping = element("select", { id: "grouping", "aria-label": "Grouping of machines", on: { change: () => go("pool", { ...words, group: grouping.value }) } },
    ...GROUPINGS.map(([value, title]) => element("option", { value, selected: (words.group || "") === value }, title)));
  return element("form", { class: "tools", role: "search", on: { submit: (event) => { event.preventDefault(); go("pool", { ...words, find: search.value.trim() }); } } },
    search, element("button", { class: "primary" }, "Find"), grouping);
}

function machineMap(cells, words) {
  if (!cells.length) return [element("p", {}, `No machine has "${words.find}" in its name.`)];
  if (!words.group) return [grid(cells, cells.length <= NAMED)];
  const groups = new Map();
  for (const cell of cells) groups.set(cell.group, [...(groups.get(cell.group) || []), cell]);
  const shown = [...groups].slice(0, GROUPS);
  const parts = shown.flatMap(([name, those]) => [element("h3", {}, name || "(not said)", element("span", { class: "quiet" }, ` ${several(those.reduce((sum, cell) => sum + cell.machines, 0), "machine", "machines")}`)), grid(those, cells.length <= NAMED)]);
  if (groups.size > shown.length) parts.push(element("p", { class: "quiet" }, `and ${number(groups.size - shown.length)} further groups`));
  return parts;
}

function grid(cells, named) {
  const made = element("div", { class: named ? "grid named" : "grid", role: "group", "aria-label": "Machines by the state of their cores" });
  if (!named) made.style.setProperty("--cell", cells.length > 600 ? "14px" : "22px");
  for (const one of cells) {
    const all = Object.values(one.cores).reduce((sum, count) => sum + count, 0);
    const name = one.machines === 1 ? one.machine : `${one.machines} machines from ${one.machine}`;
    const words = `${name}: ${Object.entries(one.cores).map(([state, count]) => `${count} ${state}`).join(", ")}`;
    const strip = element("span", { class: "strip" });
    for (const state of SLOT_STATES) {
      if (!one.cores[state]) continue;
      const part = element("i", { class: state });
      part.style.flexGrow = String(one.cores[state] / all);
      strip.append(part);
    }
    // Several machines in one cell are looked at by their names.
    const to = one.machines === 1 ? address("machine", {}, one.machine) : address("pool", { find: one.machine });
    made.append(element("a", { href: to, title: words, "aria-label": words }, strip, named ? element("span", { class: "name" }, one.machine.split(".")[0]) : null));
  }
  return made;
}

// What idle jobs ask for and did not get in the last cycle, by the shape of what they ask for.
function unmetDemand(demand) {
  if (!demand || !demand.jobs) return [];
  const shapes = demand.shapes.slice(0, 10);
  const most = Math.max(...shapes.map((shape) => shape.jobs));
  const caption = `${several(demand.jobs, "job", "jobs")} of ${several(demand.submitters, "submitter", "submitters")} found no slot in the last cycle${demand.limited_jobs ? `; quotas and limits hold ${number(demand.limited_jobs)} of them back` : ""}`;
  return [element("h2", {}, "Unmet demand"), table(caption, [
    { title: "Cores", number: true, value: (shape) => number(shape.cpus) },
    { title: "Memory", number: true, value: (shape) => bytes(shape.memory_mib * 1048576) },
    { title: "Disk", number: true, value: (shape) => bytes(shape.disk_mib * 1048576) },
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
