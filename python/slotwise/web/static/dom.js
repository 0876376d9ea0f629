// Elements of the page. They are built from text alone: nothing that a user or a host wrote into an ad is ever taken for
// markup.

import { number, share } from "./words.js";

const SVG = document.getElementById("mark").namespaceURI;

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, handler] of Object.entries(value)) made.addEventListener(event, handler);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export const element = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const drawn = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

let quietly = 0;
export function say(text) {
  const said = document.getElementById("said");
  said.textContent = text;
  clearTimeout(quietly);
  quietly = setTimeout(() => { said.textContent = ""; }, 6000);
}

// A table whose columns say what they show of a row. A column with `order` sorts: `sorted` is the order now, and `sort`
// is called with the one that a heading asks for.
export function table(caption, columns, rows, { sorted = "", sort = null } = {}) {
  const head = element("tr", {}, ...columns.map((column) => {
    const key = column.order;
    const kind = column.number ? "number" : null;
    if (!key || !sort) return element("th", { scope: "col", class: kind }, column.title);
    const way = sorted === key ? "ascending" : sorted === `-${key}` ? "descending" : "none";
    const next = way === "descending" || (way === "none" && !column.number) ? key : `-${key}`;
    const mark = { ascending: " ▲", descending: " ▼", none: "" }[way];
    return element("th", { scope: "col", class: kind, "aria-sort": way }, element("button", { type: "button", class: "sort", on: { click: () => sort(next) } }, column.title, element("span", { "aria-hidden": "true" }, mark)));
  }));
  const body = rows.map((row) => element("tr", {}, ...columns.map((column) => {
    const value = column.value(row);
    return element("td", { class: column.number ? "number" : column.wide ? "wide" : column.term ? "term" : null }, value === undefined || value === null ? "" : value);
  })));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)));
}

export function cards(values) {
  return element("ul", { class: "cards" }, ...values.map(([title, value]) => element("li", {}, element("strong", {}, value), element("span", {}, title))));
}

// A bar of a part of a whole; `due` is a line in it. Beyond `due` the bar has the colour of what is over, with `over`.
export function bar(part, whole, { due = null, of = "", over = false } = {}) {
  const full = Math.max(whole, over ? part : 0, 1e-9);
  const parts = [];
  const piece = (from, to, kind) => {
    const one = element("i", { class: kind });
    one.style.left = share(from, full);
    one.style.width = share(Math.max(0, to - from), full);
    parts.push(one);
  };
  if (over && due !== null && part > due) { piece(0, due, null); piece(due, part, "over"); } else piece(0, Math.min(part, full), null);
  let words = `${number(part)} of ${number(Math.round(10 * whole) / 10)} ${of}`.trim();
  if (due !== null) {
    const line = element("b");
    line.style.left = share(Math.min(due, full), full);
    parts.push(line);
    if (!over) words += `, due ${number(Math.round(due))}`;
    else if (part > due) words += `, ${number(Math.round(10 * (part - due)) / 10)} over`;
  }
  return element("div", { class: "bar", role: "img", "aria-label": words, title: words }, ...parts);
}

// Asks in a dialog; resolves with the text that was written, or null. Without `label` it only confirms.
export function confirmed(title, { text = "", label = "", button = "OK", danger = false, value = "" } = {}) {
  return new Promise((resolve) => {
    const field = label ? element("input", { type: "text", id: "answer", maxlength: "1000", value, autocomplete: "off" }) : null;
    const box = element("dialog", { class: "asking", "aria-labelledby": "asking-title", on: { close: () => {
      const said = box.returnValue === "go" ? (field ? field.value.trim() : "") : null;
      box.remove();
      resolve(said);
    } } }, element("form", { method: "dialog" }, element("h2", { id: "asking-title" }, title), text ? element("p", {}, text) : null,
      field ? element("label", { for: "answer" }, label) : null, field,
      element("p", { class: "actions" }, element("button", { value: "cancel", formnovalidate: true }, "Cancel"), element("button", { value: "go", class: danger ? "danger" : "primary" }, button))));
    // Enter in the field means the second button, not the first of the form.
    if (field) field.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); box.close("go"); } });
    document.body.append(box);
    box.showModal();
  });
}

export function told(title, ...children) {
  const box = element("dialog", { class: "asking", "aria-labelledby": "told-title", on: { close: () => box.remove() } },
    element("form", { method: "dialog" }, element("h2", { id: "told-title" }, title), ...children, element("p", { class: "actions" }, element("button", { value: "go", class: "primary" }, "Close"))));
  document.body.append(box);
  box.showModal();
}
