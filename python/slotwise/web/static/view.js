// Where the reader is. The address has it all, so that a page can be linked to, and gone back to.

export const view = {
  // Shows the page of the address anew; the page's start sets it.
  refresh: () => {},
  // Whether the page must not change by itself, as something on it is being chosen.
  held: () => false,
};

export function place() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "pool", ...rest] = path.split("/");
  return { page: page || "pool", rest: decodeURIComponent(rest.join("/")), words: Object.fromEntries(new URLSearchParams(search)) };
}

export function address(page, words = {}, rest = "") {
  const search = new URLSearchParams(Object.entries(words).filter(([, value]) => value)).toString();
  return `#/${page}${rest ? `/${encodeURIComponent(rest)}` : ""}${search ? `?${search}` : ""}`;
}

export function go(page, words = {}, rest = "") {
  const to = address(page, words, rest);
  if (location.hash === to) view.refresh(); else location.hash = to;
}
