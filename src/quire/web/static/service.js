// The service: its requests, its errors in their own words, its events, uploads.

const KEY = "quire-key";
let asking = null;

/** What the service answered, or that it did not: `status` is 0 if it was not reached. */
export class ServiceError extends Error {
  constructor(status, body = {}) {
    super(body.error || (status ? `The service answered ${status}.` : "The service can't be reached."));
    Object.assign(this, { status, code: body.code || "", requestId: body.request_id || "" });
  }
}

/** The key of this tab. `ask` is set by the application; it answers whether there is a new key. */
export const key = {
  ask: async () => false,
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

function headers(more = {}) {
  return key.get() ? { ...more, "X-API-Key": key.get() } : more;
}

/** Runs an attempt again after each 401 for which a new key was given. Many at once ask once. */
async function withKey(attempt) {
  for (;;) {
    const used = key.get();
    try {
      return await attempt();
    } catch (error) {
      if (error.status !== 401) throw error;
      if (key.get() !== used) continue;
      asking ??= key.ask(error.message).finally(() => (asking = null));
      if (!(await asking)) throw error;
    }
  }
}

function reached(yes) {
  window.dispatchEvent(new CustomEvent("reached", { detail: yes }));
}

async function ask(method, path, { signal, accept, lastId, body } = {}) {
  return withKey(async () => {
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
  });
}

export const get = async (path, signal) => (await ask("GET", path, { signal })).json();
export const post = async (path) => (await ask("POST", path)).json();
export const send = async (path, fields) => (await ask("POST", path, { body: JSON.stringify(fields) })).json();
export const text = async (path, signal) => (await ask("GET", path, { signal, accept: "text/markdown" })).text();
export const blob = async (path, signal) => (await ask("GET", path, { signal, accept: "*/*" })).blob();

/** Saves a file. With a key it must be fetched first, since a link can't carry one. */
export async function download(path, name) {
  const fetched = key.get() ? URL.createObjectURL(await blob(path)) : "";
  const link = Object.assign(document.createElement("a"), { href: fetched || path, download: name });
  link.click();
  if (fetched) setTimeout(() => URL.revokeObjectURL(fetched), 60_000);
}

/** Sends a file; `onShare` hears how much has gone, 0 to 1. `fetch` can't tell that, hence the old way. */
export function upload(path, file, fields, onShare) {
  return withKey(() => new Promise((resolve, reject) => {
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

/** Calls `onEvent(type, data)` for each event until the job is over, coming back after a lost connection. */
export async function events(path, onEvent, signal) {
  let lastId = "", waitMs = 2000;
  while (!signal.aborted) {
    try {
      const answer = await ask("GET", path, { signal, lastId, accept: "text/event-stream" });
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
          if (fields.data) onEvent(fields.event, JSON.parse(fields.data));
          if (fields.data && over(JSON.parse(fields.data).status)) return;
        }
      }
    } catch (error) {
      if (error.name === "AbortError" || [401, 404].includes(error.status)) return;
    }
    await new Promise((done) => setTimeout(done, waitMs));
  }
}

export const over = (status) => ["completed", "failed", "cancelled"].includes(status);

/** Repeats `work` while the page is seen; it answers how many seconds to wait. Failures wait too. */
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
