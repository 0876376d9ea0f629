// One machine: its slots, whether it drains, and its policy.

import { API, ask, cannot, change, query } from "./api.js";
import { confirmed, element, say, table } from "./dom.js";
import { duration, mebibytes, now, number, quoted, several, valueOf } from "./words.js";
import { address, place, view } from "./view.js";

const POLICY = ["Start", "Rank", "Requirements", "Suspend", "Continue", "Preempt", "Kill", "WithinResourceLimits", "Draining", "DrainReason", "ExpectedMachineGracefulDrainingCompletion", "ExpectedMachineGracefulDrainingBadput", "EnforcementGaps"];
const HOST = ["OpSysAndVer", "Arch", "TotalCpus", "TotalMemory", "TotalDisk", "TotalGPUs", "TotalLoadAvg", "KeyboardIdle", "CondorVersion", "DaemonStartTime"];

export async function machinePage() {
  const name = place().rest;
  const slots = await ask(`${API}/slots?${query({ constraint: `Machine == ${quoted(name)}`, limit: 1000 })}`);
  const first = slots.find((slot) => slot.PartitionableSlot) || slots[0] || {};
  const drains = slots.some((slot) => slot.Draining === true || slot.State === "Drained");
  const some = (keys) => Object.fromEntries(keys.filter((key) => key in first).map((key) => [key, first[key]]));
  const why = cannot("ADMINISTRATOR");
  const button = drains
    ? element("button", { type: "button", disabled: Boolean(why), title: why || null, on: { click: () => drain(name, "DELETE") } }, "take back into service")
    : element("button", { type: "button", class: "danger", disabled: Boolean(why), title: why || null, on: { click: () => drain(name, "POST") } }, "drain");
  return [
    element("h1", {}, name),
    slots.length ? element("p", { class: "tools" }, element("strong", {}, drains ? "drains" : "in service"), first.DrainReason && drains ? element("span", { class: "quiet" }, first.DrainReason) : null, button) : element("p", {}, "The collector knows no slot of this machine. ", element("a", { href: address("pool") }, "All machines")),
    table(several(slots.length, "slot", "slots"), [
      { title: "Slot", value: (slot) => slot.Name },
      { title: "State", value: (slot) => element("span", {}, element("i", { class: `dot ${String(slot.State || "other").toLowerCase()}` }), slot.State) },
      { title: "Activity", value: (slot) => slot.Activity },
      { title: "Since", number: true, value: (slot) => duration(now() - (slot.EnteredCurrentActivity || now())) },
      { title: "Cores", number: true, value: (slot) => number(slot.Cpus) },
      { title: "Memory", number: true, value: (slot) => mebibytes(slot.Memory) },
      { title: "GPUs", number: true, value: (slot) => number(slot.GPUs) },
      { title: "Load", number: true, value: (slot) => (typeof slot.LoadAvg === "number" ? slot.LoadAvg.toFixed(2) : "") },
      { title: "Job", value: (slot) => (slot.JobId ? element("a", { href: address("job", {}, slot.JobId) }, slot.JobId) : "") },
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
    const reason = await confirmed(`Drain ${machine}?`, { text: "Its jobs keep their retirement time, and no others start.", label: "Why (users see it)", button: "Drain", danger: true });
    if (reason === null) return;
    body = { reason, schedule: "graceful" };
  }
  try {
    await change(`${API}/machines/${encodeURIComponent(machine)}/drain`, body, method);
    say(method === "POST" ? "the machine drains" : "the machine is in service again");
  } catch (error) { say(error.message); }
  view.refresh();
}

export function attributes(ad, caption = "Attributes") {
  return table(caption, [
    { title: "Name", term: true, value: ([key]) => key },
    { title: "Value", wide: true, value: ([key, value]) => valueOf(key, value) },
  ], Object.entries(ad).sort(([one], [other]) => one.localeCompare(other)));
}
