// The service: requests, errors, events, uploads.

const KEY = "quire-key";
let asking = null;

/** An error answer; `status` is 0 if the service was not reached. */
export class ServiceError extends Error {
  constructor(status, body = {}) {
    super(body.error || (status ? `The service answered ${status}.` : "The service can't be reached."));
    Object.assign(this, { status, code: body.code || "", requestId: body.request_id || "",
      retryAfter: body.retry_after_seconds || 0, found: body.found || null });
  }
}

/** The API key of this tab, for users who don't sign in. The application sets `ask(reason)`: it shows the dialog
 *  and resolves to whether to repeat the request. */
export const access = {
  ask: async () => false,
  key: () => sessionStorage.getItem(KEY) || "",
  use: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

function headers(more = {}) {
  return access.key() ? { ...more, "X-API-Key": access.key() } : more;
}

/** Repeats a request after a 401 once the user has signed in. Concurrent requests show one dialog. */
async function withAccess(attempt) {
  for (;;) {
    const used = access.key();
    try {
      return await attempt();
    } catch (error) {
      if (error.status !== 401) throw error;
      if (access.key() !== used) continue;
      asking ??= access.ask(used && error.message).finally(() => (asking = null));
      if (!(await asking)) throw error;
    }
  }
}

function reached(yes) {
  window.dispatchEvent(new CustomEvent("reached", { detail: yes }));
}

async function once(method, path, { signal, accept, lastId, body } = {}) {
  const more = { Accept: accept || "application/json", ...(lastId && { "Last-Event-ID": lastId }),
    ...(body && { "Content-Type": "application/json" }) };
  let answer;
  try {
    answer = await fetch(path, { method, signal, body, headers: headers(more) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    reached(false);
    throw new ServiceError(0);
  }
  reached(true);
  if (!answer.ok) throw new ServiceError(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

const ask = (method, path, options) => withAccess(() => once(method, path, options));

export const get = async (path, signal) => (await ask("GET", path, { signal })).json();
export const post = async (path) => (await ask("POST", path)).json();
export const send = async (path, fields, signal) => (await ask("POST", path, { signal, body: JSON.stringify(fields) })).json();
export const remove = async (path) => { await ask("DELETE", path); };
export const text = async (path, signal) => (await ask("GET", path, { signal, accept: "text/markdown" })).text();
export const blob = async (path, signal) => (await ask("GET", path, { signal, accept: "*/*" })).blob();

// Without the sign-in dialog: these requests are part of it.
const quietly = {
  get: async (path) => (await once("GET", path)).json(),
  send: async (path, fields) => (await once("POST", path, { body: JSON.stringify(fields) })).json(),
  remove: async (path) => { await once("DELETE", path); },
};
export const session = {
  current: () => quietly.get("/session"),
  begin: (user, password) => quietly.send("/session", { user, password }),
  end: () => quietly.remove("/session"),
};

/** Saves a file. With a key it must be fetched first, since a link can't carry one. */
export async function download(path, name) {
  if (access.key()) return save(await blob(path), name);
  Object.assign(document.createElement("a"), { href: path, download: name }).click();
}

/** Saves what is already here. */
export function save(content, name) {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Sends a file; calls `onShare` with the share sent, 0 to 1. `fetch` has no upload progress, hence XMLHttpRequest. */
export function upload(path, file, fields, onShare) {
  return withAccess(() => new Promise((resolve, reject) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    form.append("file", file, file.name);
    const request = new XMLHttpRequest();
    request.open("POST", path);
    for (const [name, value] of Object.entries(headers())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.onprogress = (event) => event.lengthComputable && onShare(event.loaded / event.total);
    request.onerror = () => reject(new ServiceError(0));
    request.onload = () => {
      if (request.status < 300) resolve(request.response);
      else reject(new ServiceError(request.status, request.response || {}));
    };
    request.send(form);
  }));
}

export const over = (status) => ["completed", "failed", "cancelled"].includes(status);

/** Resolves when the page is visible, or when the view has ended. */
const seen = (signal) => new Promise((resolve) => {
  if (!document.hidden || signal.aborted) return void resolve();
  const once = { once: true };
  document.addEventListener("visibilitychange", () => resolve(seen(signal)), once);
  signal.addEventListener("abort", resolve, once);
});

/** Calls `onEvent(type, data)` for each event until it is `ended`, reconnecting after a lost connection.
 *  A hidden page closes its connection (a browser has six per host for all its tabs) and catches up later. */
export async function events(path, onEvent, signal, ended = (data) => over(data.status)) {
  let lastId = "", waitMs = 2000;
  while (!signal.aborted) {
    await seen(signal);
    const hidden = new AbortController(), either = AbortSignal.any([signal, hidden.signal]);
    document.addEventListener("visibilitychange", () => hidden.abort(), { once: true, signal: either });
    try {
      const answer = await ask("GET", path, { signal: either, lastId, accept: "text/event-stream" });
      if (answer.status === 204) return;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ;) {
        const { done, value } = await reader.read();
        if (done) break;
        const blocks = (rest + value).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
          if (fields.id) lastId = fields.id;
          if (fields.retry) waitMs = Number(fields.retry);
          if (!fields.data) continue;
          const data = JSON.parse(fields.data);
          onEvent(fields.event, data);
          if (ended(data)) return;
        }
      }
    } catch (error) {
      if (signal.aborted || [401, 404].includes(error.status)) return;
      if (hidden.signal.aborted) continue;
    }
    await new Promise((done) => setTimeout(done, waitMs));
  }
}

/** Repeats `work` while the page is visible; `work` returns the seconds to wait. After a failure it waits 5 s. */
export function repeat(work, signal, onError) {
  const turn = async () => {
    let seconds = 5;
    try {
      if (!document.hidden) seconds = await work();
    } catch (error) {
      if (!signal.aborted) onError(error);
      if (error.status === 401) return;
    }
    if (!signal.aborted) setTimeout(turn, seconds * 1000);
  };
  turn();
}
