// Small charts over time, drawn from text and numbers.

import { drawn, element } from "./dom.js";
import { number, when } from "./words.js";

const WIDE = 600, HIGH = 120;

// Series over time: `rows` are {at, values}, `series` are [key, class, title]; stacked, or as lines.
export function chart(title, rows, series, { stacked = false } = {}) {
  const shown = series.filter(([key]) => rows.some((row) => row.values[key]));
  if (rows.length < 2 || !shown.length) return element("p", { class: "quiet" }, `${title}: there will be a chart here in a few minutes.`);
  const first = rows[0].at, span = Math.max(1, rows.at(-1).at - first);
  const total = (row) => shown.reduce((sum, [key]) => sum + (row.values[key] || 0), 0);
  const most = Math.max(1, ...rows.map((row) => (stacked ? total(row) : Math.max(...shown.map(([key]) => row.values[key] || 0)))));
  const x = (row) => (WIDE * (row.at - first) / span).toFixed(1);
  const y = (value) => (HIGH - HIGH * value / most).toFixed(1);
  const below = rows.map(() => 0);
  const shapes = shown.map(([key, kind]) => {
    if (!stacked) return drawn("polyline", { class: `line ${kind}`, points: rows.map((row) => `${x(row)},${y(row.values[key] || 0)}`).join(" ") });
    const bottom = rows.map((row, place) => `${x(row)},${y(below[place])}`).reverse();
    rows.forEach((row, place) => { below[place] += row.values[key] || 0; });
    return drawn("polygon", { class: `area ${kind}`, points: [...rows.map((row, place) => `${x(row)},${y(below[place])}`), ...bottom].join(" ") });
  });
  const last = rows.at(-1);
  const words = `${title}, ${when(first)} to ${when(last.at)}. Now: ${shown.map(([key, , name]) => `${number(last.values[key] || 0)} ${name}`).join(", ")}; at most ${number(most)}.`;
  return element("figure", { class: "chart" }, element("figcaption", {}, title, element("span", { class: "quiet" }, ` up to ${number(most)}`)),
    drawn("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": words }, ...shapes),
    element("p", { class: "ends quiet" }, element("span", {}, when(first).slice(0, 16)), element("span", {}, when(last.at).slice(0, 16))),
    element("ul", { class: "legend" }, ...shown.map(([key, kind, name]) => element("li", {}, element("i", { class: kind }), `${name} ${number(last.values[key] || 0)}`))));
}
