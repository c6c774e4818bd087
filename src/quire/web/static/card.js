// Card: a document of the vault as a card or as a table row, with its state and its retry.

import { action, ago, fill, h, icon, plural, question, renew, say, showStatus, size, write } from "./element.js";
import { send } from "./service.js";
import { thumbnail } from "./thumbnail.js";

const STATES = {
  pending: ["busy", "Being read", ""], stale: ["warn", "Stuck", "Retry"], completed: ["good", "Ready", ""],
  needs_classification: ["warn", "Not classified", "Retry classification"], failed: ["bad", "Failed", "Retry processing"],
  unsupported: ["idle", "Not readable", ""],
};

/** Tone and words of a document's state, and what its retry is called; "" where there is nothing to retry. */
export function statusOf(found) {
  const [tone, words, retry] = STATES[found.state] || ["idle", found.state, ""];
  if (found.state === "needs_classification" && found.error?.code === "classifying") return { tone: "busy", words: "Being classified", retry: "" };
  if (found.state === "needs_classification" && found.error?.code === "still_reading") return { tone: "busy", words: "AI is still reading", retry: "" };
  if (found.state === "completed" && found.doubtful_pages) return { tone: "warn", words: `${words}, ${found.doubtful_pages} to check`, retry };
  if (found.state === "pending" && found.progress === 100) return { tone, words: "Being classified", retry };
  return { tone, words, retry };
}

export const named = (found) => found.title || found.filename || found.document_id;

/** Pieces of a text with the matches marked. Built as elements, never as markup: the text is untrusted. */
export const marked = (pieces) => pieces.map((piece) => (piece.match ? h("mark", {}, piece.text) : piece.text));

/** Reprocesses a document; asks for the password of a protected one. Calls `onSent` just before the request. */
export async function reprocess(found, onSent = () => {}) {
  const fields = {};
  if (["password_required", "password_wrong"].includes(found.error?.code)) {
    const password = await question({ title: "Password of the document", yes: "Try again", secret: true,
      text: `${found.filename} is protected. The password is stored encrypted and used only to open it.` });
    if (!password) return null;
    fields.password = password;
  }
  onSent();
  const answer = await send(`/documents/${found.document_id}/reprocess`, fields);
  say({ started: "Processing has started again.", running: "It is already being processed.", skipped: "There is nothing to do: the type is not supported." }[answer.outcome] || "");
  return answer;
}

export const day = (iso) => (iso ? new Date(`${iso}T12:00:00`).toLocaleDateString(undefined, { dateStyle: "medium" }) : "");

export const tagLinks = (tags) => tags.map((tag) => h("a.chip", { href: `#/vault?tag=${encodeURIComponent(tag)}` }, tag));

/** `update(found, hit)` redraws it; a search hit brings its marked title and snippet. */
export function card(id, onChanged, signal) {
  const picture = thumbnail(signal), name = h("a.name", { href: `#/vault/${id}` }), badge = h("span.badge"), file = h("span.file");
  const text = h("p.text"), error = h("p.error"), facts = h("p.facts-line"), tags = h("p.chips"), tools = h("span.tools");
  const bar = h("progress", { max: 100 });
  const element = h("li.card", {}, picture.element, h("div.body", {}, h("div.first", {}, badge, file), name, text, error, bar, h("div.last", {}, tags, facts), tools));
  const draw = drawer({ name, badge, tools, onChanged, redraw: (found) => update(found, null) });

  function update(given, hit) {
    const found = draw.retrying(given), how = draw(found, hit);
    element.className = `card ${how.tone}`;
    const fresh = found.state === "pending" && (found !== given || !found.title && !hit?.snippet);
    picture.show(found);
    write(file, found.title ? found.filename : found.type);
    if (fresh) fill(text, h("span.bone"), h("span.bone"));
    else if (hit?.snippet) fill(text, hit.snippet.page > 1 && h("span.where", {}, `Page ${hit.snippet.page}: `), ...marked(hit.snippet.pieces));
    else fill(text, found.state === "unsupported" ? found.error?.error : found.summary);
    write(error, how.tone === "bad" || how.tone === "warn" ? found.error?.error || "" : "");
    bar.hidden = found.status !== "pending";
    if (found.progress === null) bar.removeAttribute("value");
    else bar.value = found.progress;
    bar.setAttribute("aria-label", `Progress of ${named(found)}`);
    write(facts, [day(found.date), found.pages && plural(found.pages, "page"), found.language, size(found.size),
      !found.date && `added ${ago(found.created_at)}`].filter(Boolean).join(" · "));
    renew(tags, found.tags.join(), () => tagLinks(found.tags.slice(0, 5))); // only those that fit on one line are visible
  }
  return { element, update };
}

export function row(id, onChanged) {
  const name = h("a.name", { href: `#/vault/${id}` }), badge = h("span.badge"), tags = h("span.chips"), tools = h("span.tools");
  const file = h("span.hint"), date = h("td.date"), type = h("td.type"), pages = h("td.pages"), added = h("td.added");
  const element = h("tr", {}, h("th", { scope: "row" }, name, file), h("td.state", {}, badge), h("td.tags", {}, tags), date, type, pages, added, h("td.do", {}, tools));
  const draw = drawer({ name, badge, tools, onChanged, redraw: (found) => update(found, null) });

  function update(given, hit) {
    const found = draw.retrying(given);
    element.className = draw(found, hit).tone;
    write(file, hit?.snippet ? "" : found.title ? found.filename : "");
    if (hit?.snippet) fill(file, ...marked(hit.snippet.pieces));
    renew(tags, found.tags.join(), () => tagLinks(found.tags.slice(0, 3)));
    write(date, day(found.date));
    write(type, found.type);
    write(pages, found.pages ? String(found.pages) : "");
    write(added, ago(found.created_at));
  }
  return { element, update };
}

/** Name, state and retry of a card or row, redrawn only when they change. */
function drawer({ name, badge, tools, onChanged, redraw }) {
  let shown = "", before = "", retried = null;

  /** While a retry is being requested, the document is drawn as pending: its skeleton appears at once. */
  function retrying(found) {
    if (retried === null || found.attempt > retried || found.status === "pending") return found;
    return { ...found, status: "pending", state: "pending", progress: null, error: null };
  }

  async function retry(found) {
    retried = found.attempt;
    try {
      const answer = await reprocess(found, () => redraw(found));
      if (answer?.outcome === "started") await onChanged(found.document_id);
    } finally {
      retried = null;
      redraw(found);
    }
    await onChanged(found.document_id);
  }

  const draw = (found, hit) => {
    const how = statusOf(found);
    if (hit?.title) fill(name, ...marked(hit.title.pieces));
    else write(name, named(found));
    name.classList.toggle("plain", !found.title);
    const share = found.state === "pending" && found.progress && found.progress < 100 ? ` ${found.progress} %` : "";
    showStatus(badge, { ...how, words: `${how.words}${share}` });
    if (before && before !== found.state) say(`${named(found)}: ${how.words}`);
    before = found.state;
    const state = `${how.retry} ${found.error?.code}`;
    if (state !== shown) {
      shown = state;
      fill(tools, how.retry && action([icon("retry"), how.retry], () => retry(found), ".small"));
    }
    return how;
  };
  return Object.assign(draw, { retrying });
}
