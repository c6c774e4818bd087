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
  const kept = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...kept);
  return element;
}

/** Changes a text only if it differs, so that screen readers are not told again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const say = (text) => write(document.getElementById("live"), text);

/** Shows an error until it is dismissed or the view changes. */
export function complain(error) {
  if (error.name === "AbortError" || error.status === 0) return;
  const box = h("div.notice", {}, h("p", {}, error.message),
    error.requestId && h("p.hint", {}, "Request id ", h("code", {}, error.requestId)),
    h("button.quiet", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "✕"));
  document.getElementById("notices").replaceChildren(box);
}

/** A button that is off while its work runs and shows what went wrong. */
export function action(label, work, look = "") {
  const made = h(`button${look}`, { type: "button" }, label);
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
  mupdf_fallback: "fallback text", mupdf_timeout_fallback: "fallback text (time was up)",
};

export const readBy = (source) => READ[source] || source;

const TONES = { queued: "idle", processing: "busy", completed: "good", failed: "bad", cancelled: "idle" };
const SIGNS = { idle: "·", busy: "…", good: "✓", warn: "!", bad: "✕" };

/** How a document stands: its tone, and the words for it. */
export function standing(job) {
  const count = job.mupdf_fallback_count;
  if (job.status === "completed" && (job.pages_failed || count)) {
    const parts = [job.pages_failed && `${job.pages_failed} failed`, count && `${count} fallback`];
    return { tone: "warn", words: `Completed, ${parts.filter(Boolean).join(", ")}` };
  }
  const words = job.status.charAt(0).toUpperCase() + job.status.slice(1);
  return { tone: TONES[job.status] || "idle", words };
}

export function showStanding(badge, { tone, words }) {
  badge.className = `badge ${tone}`;
  write(badge, `${SIGNS[tone]} ${words}`);
}
