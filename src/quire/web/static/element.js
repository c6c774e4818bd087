// Elements: built from text only, so that nothing from a document can become markup.

/** `h("p.hint", {title: "…", onclick: …}, "text", child)`; nothing is made of null, undefined and false. */
export function h(name, options = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [option, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (option.startsWith("on")) made.addEventListener(option.slice(2), value);
    else made.setAttribute(option, value === true ? "" : value);
  }
  fill(made, ...children);
  return made;
}

export function fill(element, ...children) {
  const kept = children.flat().filter((child) => child !== null && child !== undefined && child !== false && child !== "");
  element.replaceChildren(...kept);
  return element;
}

const drawn = new WeakMap();

/** Redraws only if `key` has changed, and keeps the focus on the child with the same `data-name`. */
export function renew(element, key, make) {
  if (drawn.get(element) === key) return;
  drawn.set(element, key);
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.name : undefined;
  fill(element, ...make());
  if (focused !== undefined) [...element.querySelectorAll("[data-name]")].find((one) => one.dataset.name === focused)?.focus();
}

/** Changes a text only if it differs, so that screen readers don't repeat it. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const say = (text) => write(document.getElementById("live"), text);

const PATHS = {
  search: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 20 20",
  upload: "M12 16V5M7.5 9.5 12 5l4.5 4.5M5 19h14",
  cards: "M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z",
  table: "M4 6h16M4 12h16M4 18h16",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  retry: "M19 12a7 7 0 1 1-2-5M19 4v4h-4",
  download: "M12 5v10M7.5 11 12 15.5 16.5 11M5 19h14",
};

/** A decorative icon, hidden from screen readers; a text is always beside it. */
export function icon(name) {
  const space = ["http:", "", "www.w3.org", "2000", "svg"].join("/"); // a name, not an address
  const made = document.createElementNS(space, "svg"), path = document.createElementNS(space, "path");
  for (const [option, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" })) made.setAttribute(option, value);
  path.setAttribute("d", PATHS[name]);
  made.append(path);
  return made;
}

/** Shows an error until it is dismissed or the view changes. */
export function complain(error) {
  if (error.name === "AbortError" || error.status === 0) return;
  const box = h("div.notice", {}, h("p", {}, error.message),
    error.requestId && h("p.hint", {}, "Request id ", h("code", {}, error.requestId)),
    h("button.quiet", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "✕"));
  document.getElementById("notices").replaceChildren(box);
}

/** A button that is disabled while its work runs and shows its error. */
export function action(label, work, look = "") {
  const made = h(`button${look}`, { type: "button" }, ...[label].flat());
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await work();
    } catch (error) {
      complain(error);
    }
    made.disabled = false;
  });
  return made;
}

/** A confirmation dialog; resolves to true or false, or with `secret` to the password. */
export function question({ title, text, yes, secret = false, danger = false }) {
  const at = (id) => document.getElementById(id), dialog = at("question"), answer = at("question-answer");
  write(at("question-title"), title);
  write(at("question-text"), text);
  write(at("question-yes"), yes);
  at("question-yes").className = danger ? "danger" : "primary";
  answer.hidden = at("question-label").hidden = !secret;
  answer.required = secret;
  answer.value = dialog.returnValue = "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      const said = dialog.returnValue === "yes";
      resolve(secret ? said && answer.value : said);
      answer.value = "";
    }, { once: true });
    dialog.showModal();
  });
}

export function skeleton(rows) {
  const bars = Array.from({ length: rows }, () => h("div.bone"));
  return h("div.skeleton", { "aria-busy": "true", "aria-label": "Loading" }, ...bars);
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

export function size(bytes) {
  if (!bytes) return "";
  if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export function ago(iso) {
  const seconds = (new Date(iso) - Date.now()) / 1000;
  if (seconds > -45) return "just now";
  for (const [unit, length] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (-seconds >= length || unit === "minute") return RELATIVE.format(Math.min(-1, Math.round(seconds / length)), unit);
  }
}

const READ = {
  local: "text layer", ocr: "OCR", ai: "AI", batch: "batch parser", cache: "cache",
  mupdf_fallback: "fallback text", mupdf_timeout_fallback: "fallback text (deadline)",
};

export const readBy = (source) => READ[source] || source;

export const money = (dollars) => `$${dollars > 0 && dollars < 0.01 ? dollars.toFixed(4) : dollars.toFixed(2)}`;

const TONES = { queued: "idle", processing: "busy", completed: "good", failed: "bad", cancelled: "idle" };
const SIGNS = { idle: "·", busy: "…", good: "✓", warn: "!", bad: "✕" };

/** The status of a conversion: tone and words. */
export function statusOf(job) {
  const count = job.mupdf_fallback_count, doubtful = job.doubtful_pages;
  if (job.status === "completed" && (job.pages_failed || count || doubtful)) {
    const parts = [job.pages_failed && `${job.pages_failed} failed`, count && `${count} fallback`, doubtful && `${doubtful} to check`];
    return { tone: "warn", words: `Completed, ${parts.filter(Boolean).join(", ")}` };
  }
  const words = job.status.charAt(0).toUpperCase() + job.status.slice(1);
  return { tone: TONES[job.status] || "idle", words };
}

export function showStatus(badge, { tone, words }) {
  badge.className = `badge ${tone}`;
  write(badge, `${SIGNS[tone]} ${words}`);
}
