// Values of ads as people read them. Nothing here touches the document.

export const STATUS = { 1: "idle", 2: "running", 3: "removed", 4: "completed", 5: "on hold", 6: "transferring output", 7: "suspended" };
const UNIVERSES = { 1: "standard", 5: "vanilla", 7: "scheduler", 8: "MPI", 9: "grid", 10: "java", 11: "parallel", 12: "local", 13: "vm" };
const NOTIFICATIONS = { 0: "never", 1: "always", 2: "when it is complete", 3: "when it fails" };

export const number = (value) => (typeof value === "number" ? value.toLocaleString("en", { maximumFractionDigits: 2 }) : "");
export const share = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : "0%");
export const several = (count, one, more) => `${number(count)} ${count === 1 ? one : more}`;
export const now = () => Date.now() / 1000;
export const when = (epoch) => (epoch ? new Date(epoch * 1000).toLocaleString("sv") : "");

// A length of time by its two largest units: 3 d 4 h, 12 min 5 s.
export function duration(seconds) {
  const left = Math.max(0, Math.floor(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([size, unit], place, all) => [Math.floor((place ? left % all[place - 1][0] : left) / size), unit]);
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).filter(([count], place) => count > 0 || place === 0).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

export function bytes(count) {
  let value = count;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(value) < 1024 || unit === "TiB") return `${value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 && unit !== "B" ? 1 : 0 })} ${unit}`;
    value /= 1024;
  }
  return "";
}

export const mebibytes = (count) => (typeof count === "number" ? bytes(count * 1048576) : "");

// An expression comes from the API as a string with marks.
export const expression = (value) => (typeof value === "string" ? /^\/Expr\((.*)\)\/$/s.exec(value)?.[1] : undefined);

// The value that an attribute has, in units and words where its name tells what it is.
export function valueOf(name, value) {
  const written = expression(value);
  if (written !== undefined) return written.replace(/\b(\d+\.\d+)E\+00\b/g, (_, digits) => String(Number(digits)));
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map((one) => valueOf("", one)).join(", ") || "none";
  if (typeof value !== "number") return JSON.stringify(value);
  if (name === "JobStatus" || name === "LastJobStatus") return STATUS[value] || String(value);
  if (name === "JobUniverse") return UNIVERSES[value] || String(value);
  if (name === "JobNotification") return NOTIFICATIONS[value] ?? String(value);
  if (value > 1e9 && value < 1e11 && /Date|Time|Bday|^Entered|Last.*(Renewal|Heard)|Expiration|DrainingCompletion$/.test(name)) return when(value);
  if (/^(RequestMemory|Memory|MemoryUsage|MemoryProvisioned|TotalMemory|DetectedMemory|TransferInputSizeMB|VirtualMemory)$/.test(name)) return mebibytes(value);
  if (/^(RequestDisk|Disk|DiskUsage|DiskProvisioned|TotalDisk|ImageSize|ExecutableSize|ResidentSetSize|ProportionalSetSizeKb)(_RAW)?$/.test(name)) return bytes(value * 1024);
  if (/Bytes(Sent|Recvd)$/.test(name)) return bytes(value);
  if (/(WallClockTime|CommittedTime|SlotTime|SuspensionTime|UserCpu|SysCpu|LeaseDuration|RetirementTime|VacateTime|Duration|DrainingBadput|KeyboardIdle|ConsoleIdle)$/.test(name)) return value ? duration(value) : "0 s";
  return number(value);
}

// Where a running job is, or why one does not run, in a line.
//
// The negotiator says it of the first job of those that are alike; `cycle` is its last one, for the others.
export function reason(job, cycle = {}) {
  switch (job.JobStatus) {
    case 1: {
      const said = job.LastRejMatchReason && (job.LastRejMatchTime || 0) >= (job.EnteredCurrentStatus || 0) ? job.LastRejMatchReason : saidOfOthers(job, cycle);
      if (said) return said;
      if (job.NumJobStarts && (job.LastVacateReason || job.VacateReason)) return `waits again: ${job.LastVacateReason || job.VacateReason}`;
      return job.LastRejMatchReason || (cycle.started_at > job.QDate ? "waits for a slot" : "waits for the next negotiation cycle");
    }
    case 2: case 6: case 7: return job.RemoteHost ? `on ${job.RemoteHost}` : "";
    case 3: return job.RemoveReason || "";
    case 4: return ended(job);
    case 5: return job.HoldReason || "";
    default: return "";
  }
}

// What the last cycle said of all jobs of its submitter, where that is one thing.
function saidOfOthers(job, cycle) {
  const submitter = job.AccountingGroup && job.User ? `${job.AccountingGroup}@${job.User.split("@")[1]}` : job.User;
  const said = new Set([...(cycle.waiting || []), ...(cycle.rejections || [])].filter((row) => row.submitter === submitter).map((row) => row.reason));
  return said.size === 1 && cycle.started_at > job.EnteredCurrentStatus ? [...said][0] : "";
}

export function ended(job) {
  if (job.ExitBySignal === true || job.ExitSignal !== undefined) return `ended by signal ${job.ExitSignal ?? ""}`.trim();
  return job.ExitCode === undefined ? "" : `exit code ${job.ExitCode}`;
}

// Keys of reports as words.
export const words = (key) => key.replace(/_s$/, "").replaceAll("_", " ").replace(/([a-z])([A-Z])/g, (_, one, other) => `${one} ${other.toLowerCase()}`);
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const quoted = (text) => `"${String(text).replace(/[\\"]/g, "\\$&")}"`;
