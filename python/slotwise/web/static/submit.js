// A form for submit descriptions: what they would queue, what is wrong and where, and what the pool's slots say to it.

import { API, cannot, change, session } from "./api.js";
import { element, say } from "./dom.js";
import { report } from "./job.js";
import { attributes } from "./machine.js";
import { several } from "./words.js";
import { go } from "./view.js";

const EXAMPLE = `# Lines are \`name = value\`; directories and files are those of the access point.
executable = /bin/sleep
arguments = 60
transfer_executable = false
initialdir = /tmp
request_cpus = 1
request_memory = 128M
queue 1
`;
// What is being written stays while the reader looks at other pages.
let text = EXAMPLE;

export async function submitPage() {
  const why = cannot();
  const field = element("textarea", { id: "description", rows: "14", spellcheck: "false", autocomplete: "off", "aria-label": "Submit description", "aria-describedby": "found", on: { input: () => { text = field.value; } } });
  field.value = text;
  const found = element("div", { id: "found", role: "status" });
  const preview = element("button", { type: "button", disabled: Boolean(why), title: why || null, on: { click: () => look(field, found) } }, "Preview");
  const submit = element("button", { type: "submit", class: "primary", disabled: Boolean(why), title: why || null }, "Submit");
  const form = element("form", { class: "submit", on: { submit: (event) => { event.preventDefault(); send(field, found, submit); } } },
    field, element("p", { class: "actions" }, preview, submit));
  return [
    element("h1", {}, "Submit jobs"),
    session.signedIn ? element("p", { class: "quiet" }, `They run as ${session.user || "the token's user"}. `, element("code", {}, "queue x in (a, b, c)"), " makes a job of each item, with ", element("code", {}, "$(x)"), "; statements that would read files of this service are refused.")
      : element("p", {}, "Sign in to submit jobs: the button is above."),
    form, found,
  ];
}

function wrong(field, found, error) {
  const line = Number(/(?:line |:)(\d+)(?::|\b)/.exec(error.problem?.origin || error.message)?.[1] || 0);
  found.replaceChildren(element("pre", { class: "bad" }, error.message)); // a caret stands below its place
  if (!line) return;
  const lines = field.value.split("\n");
  const from = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  field.focus();
  field.setSelectionRange(from, from + (lines[line - 1] || "").length);
}

async function look(field, found) {
  found.replaceChildren(element("p", { class: "quiet" }, "..."));
  let told;
  try { told = await change(`${API}/jobs/preview`, { text: field.value }); } catch (error) { wrong(field, found, error); return; }
  found.replaceChildren(
    element("h2", {}, `This queues ${several(told.count, "job", "jobs")}`),
    ...told.warnings.map((warning) => element("p", { class: "warn" }, warning)),
    element("h3", {}, "What the pool says to the first of them"), report(told),
    element("details", {}, element("summary", {}, "The ad of the first of them"), attributes(told.ad)));
}

async function send(field, found, button) {
  button.disabled = true; // once is enough
  try {
    const made = await change(`${API}/jobs`, { text: field.value });
    say([`${several(made.count, "job", "jobs")} submitted to cluster ${made.cluster}`, ...made.warnings].join("; "));
    go("jobs", { constraint: `ClusterId == ${made.cluster}` });
  } catch (error) {
    wrong(field, found, error);
    button.disabled = false;
  }
}

