// The HTTP API, as programs use it, and who has signed in to it.

export const API = "/api/v1";
export const session = { signedIn: false, user: "", may: [] };

// Values as they stand in an address; of a list each on its own.
export const query = (values) => new URLSearchParams(Object.entries(values).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).filter((one) => one !== "" && one !== undefined && one !== null).map((one) => [name, one]))).toString();

async function reply(path, options) {
  const headers = { "x-slotwise-request": "page", ...(options.headers || {}) };
  const got = await fetch(path, { ...options, headers, credentials: "same-origin" });
  if (got.ok) return got;
  let problem = {};
  try { problem = await got.json(); } catch { /* no JSON: the status has to do */ }
  const said = problem.detail || `${got.status} ${got.statusText}`;
  const error = new Error(problem.hint ? `${said} (${problem.hint})` : said);
  Object.assign(error, { status: got.status, problem });
  throw error;
}

const read = (got) => ((got.headers.get("content-type") || "").includes("json") ? got.json() : got.text());

export async function ask(path, options = {}) { return read(await reply(path, options)); }

// A page of a list, and the place at which the next one begins.
export async function askPage(path) {
  const got = await reply(path, {});
  const link = /<([^>]*)>; rel="next"/.exec(got.headers.get("link") || "");
  return { rows: await read(got), next: link ? new URL(link[1], location.origin).searchParams.get("after") : "" };
}

export const change = (path, body, method = "POST") => ask(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });

// What keeps the reader from changing something; empty: nothing that the page knows of.
export function cannot(right = "WRITE") {
  if (!session.signedIn) return "Sign in first";
  if (session.may.length && !session.may.includes(right)) return `Your token does not allow it: it has no ${right}`;
  return "";
}

export async function lookWho() {
  try {
    const pool = await ask(`${API}/pool`);
    Object.assign(session, { signedIn: pool.signed_in, user: pool.user || "", may: pool.may || [] });
  } catch { Object.assign(session, { signedIn: false, user: "", may: [] }); }
}
