// The page of the pool: which of its views is shown, when it is asked for anew, and signing in. It asks the HTTP API
// that programs use, too, with the rights of who has signed in.

import { API, ask, lookWho, session } from "./api.js";
import { cyclePage } from "./cycle.js";
import { dagPage, dagsPage } from "./dags.js";
import { element, say } from "./dom.js";
import { eventsPage } from "./events.js";
import { jobPage } from "./job.js";
import { historyPage, jobsPage } from "./jobs.js";
import { machinePage } from "./machine.js";
import { poolPage } from "./pool.js";
import { submitPage } from "./submit.js";
import { usersPage } from "./users.js";
import { place, view } from "./view.js";

const main = document.getElementById("main");
let refreshing = 0;

// Each view with how often it is asked for anew by itself, in milliseconds, and the entry of the menu that it is under.
const PAGES = {
  pool: [poolPage, 5000], machine: [machinePage, 5000, "pool"], jobs: [jobsPage, 10000], job: [jobPage, 3000, "jobs"], dags: [dagsPage, 5000], dag: [dagPage, 5000, "dags"], history: [historyPage, 0],
  submit: [submitPage, 0, "jobs"], users: [usersPage, 10000], cycle: [cyclePage, 5000], events: [eventsPage, 10000],
};

const HOLDERS = "a, button, input, select, textarea, summary, [tabindex]";

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
  [...main.querySelectorAll("pre")].forEach((one, index) => { one.scrollTop = before?.down[index] ?? one.scrollHeight; });
  if (!before) return;
  [...main.querySelectorAll(".scroll")].forEach((one, index) => { one.scrollLeft = before.across[index] ?? 0; });
  if (before.focus >= 0) main.querySelectorAll(HOLDERS)[before.focus]?.focus({ preventScroll: true });
}

// Whether the reader is in the middle of something that a new view would undo.
const isBusy = () => document.querySelector("dialog[open]") || view.held() || main.contains(document.activeElement?.closest("input, select, textarea, .scroll"));

async function show(moved = false) {
  const { page } = place();
  const known = Object.hasOwn(PAGES, page) ? page : "pool";
  const [build, every, under = known] = PAGES[known];
  const turn = ++refreshing;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${under}`) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  let parts;
  try { parts = await build(); } catch (error) {
    parts = [element("h1", {}, "That did not work"), element("p", { class: "bad" }, error.message)];
    if (!session.signedIn && [401, 403].includes(error.status)) parts.push(element("p", {}, element("button", { class: "primary", on: { click: askForToken } }, "Sign in")));
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
  if (every) again(turn, every);
}

// Asks for the view anew; while the reader is busy it waits for the next time.
function again(turn, every) {
  setTimeout(() => {
    if (turn !== refreshing || document.hidden) return;
    if (isBusy()) again(turn, every); else show();
  }, every);
}

function askForToken() { document.getElementById("signing").showModal(); }

function showWho() {
  document.getElementById("sign").textContent = session.signedIn ? "Sign out" : "Sign in";
  document.getElementById("who").textContent = session.signedIn ? session.user || "signed in" : "";
  document.getElementById("who").title = session.may.length ? `may ${session.may.join(", ")}` : "";
}

document.getElementById("sign").addEventListener("click", async () => {
  if (!session.signedIn) { askForToken(); return; }
  await ask(`${API}/session`, { method: "DELETE" });
  Object.assign(session, { signedIn: false, user: "", may: [] });
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
    await lookWho();
    say(`signed in as ${session.user}`);
  } catch (error) { say(error.message); }
  showWho();
  show();
});

view.refresh = () => show();
window.addEventListener("hashchange", () => show(true));
document.addEventListener("visibilitychange", () => { if (!document.hidden && !isBusy()) show(); });
lookWho().then(() => { showWho(); show(); });
