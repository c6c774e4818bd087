// Vault: the documents as cards or a table, filtered by words, state and tag, live.

import { card, row } from "./card.js";
import { action, complain, fill, h, icon, plural, renew, skeleton, write } from "./element.js";
import { download, events, get, repeat, send } from "./service.js";
import { uploads } from "./uploads.js";

const AT_ONCE = 48;
const TYPING_MS = 220;
const LOOK = "quire-vault-view";
const STATES = [["", "All"], ["pending", "Being read"], ["needs_classification", "Not classified"], ["stale", "Stuck"], ["unsupported", "Not readable"], ["failed", "Failed"]];

export function vault(main, { query: asked }, signal) {
  let filters = read(asked), shown = new Map(), cursor = null, turn = 0, typing = 0, live = false;
  let look = sessionStorage.getItem(LOOK) === "table" ? "table" : "cards";

  const box = h("input", { type: "search", placeholder: "Search words, names, meaning…  ( / )", "aria-label": "Search the vault",
    autocomplete: "off", spellcheck: "false", maxlength: "500" });
  const total = h("span.hint"), remark = h("p.hint.remark"), list = h("div.found"), below = h("div.below");
  const states = h("div.segments", { role: "group", "aria-label": "State" });
  const tags = h("p.chips.suggested", { "aria-label": "Tags" });
  const looks = h("div.segments.looks", { role: "group", "aria-label": "View" });
  const rows = h("tbody"), cards = h("ul.cards", { "aria-label": "Documents" });
  const table = h("table.vault", { "aria-label": "Documents" }, h("thead", {}, h("tr", {},
    ...["Document", "State", "Tags", "Date", "Type", "Pages", "Added", ""].map((head, at) =>
      h("th", { scope: "col", class: ["", "state", "tags", "date", "type", "pages", "added", "do"][at] }, head)))), rows);

  const adding = uploads("/documents", { place: (found) => `#/vault/${found.document_id}`, onAccepted: () => { soon(); recount(); } }, signal);
  const retryAll = action([icon("retry"), "Retry all of these"], async () => {
    const answer = await send("/documents/reprocess", { status: filters.status });
    write(remark, `${plural(answer.started, "document")} started again${answer.more ? "; there are more" : ""}.`);
    await newest();
  }, ".small");

  const address = () => {
    const parameters = new URLSearchParams(Object.entries(filters).filter(([, value]) => value));
    return `#/vault${parameters.size ? `?${parameters}` : ""}`;
  };

  function parameters(more = {}) {
    const wanted = new URLSearchParams({ limit: AT_ONCE });
    for (const [name, value] of Object.entries({ ...filters, ...more })) if (value) wanted.append(name, value);
    return wanted;
  }

  const fetched = (more) => (filters.q ? get(`/search?${parameters(more)}`, signal) : get(`/documents?${parameters(more)}`, signal));

  /** Loads the first page, or the page after those shown. */
  async function load(more = false) {
    const mine = (turn += 1);
    const found = await fetched(more ? { cursor } : {});
    if (mine !== turn || signal.aborted) return;
    const before = shown;
    if (!more) shown = new Map();
    const hits = found.hits || found.documents.map((one) => ({ document: one, plain: true }));
    for (const hit of hits) shown.set(hit.document.document_id, { ...hit, drawn: before.get(hit.document.document_id)?.drawn });
    cursor = found.next_cursor;
    const corrected = Object.entries(found.corrections || {});
    fill(remark, corrected.length > 0 && ["Also searched for ", ...corrected.flatMap(([, now], at) => [at ? ", " : "", h("strong", {}, now)]), "."],
      found.similarity === false && filters.q && " By words only: the embedding model does not answer.");
    draw();
  }

  function draw() {
    const place = look === "table" ? rows : cards, make = look === "table" ? row : card;
    let at = 0;
    for (const [id, hit] of shown) {
      hit.drawn ??= make(id, refresh, signal);
      hit.drawn.update(hit.document, hit.plain ? null : hit);
      if (place.children[at] !== hit.drawn.element) place.insertBefore(hit.drawn.element, place.children[at] || null);
      at += 1;
    }
    while (place.children.length > at) place.lastChild.remove();
    if (!shown.size) fill(list, empty(filters));
    else if (!list.contains(place)) fill(list, look === "table" ? table : cards);
    fill(below, cursor && action("Show more", () => load(true)));
  }

  /** Reloads one shown document. */
  async function refresh(id) {
    const hit = shown.get(id);
    if (!hit) return;
    try {
      const now = await get(`/documents/${id}`, signal);
      // The id became an alias: the vault already had the bytes behind the link.
      if (now.document_id === id) hit.document = now;
      else { shown.delete(id); soon(); }
    } catch (error) {
      if (error.status !== 404) throw error;
      shown.delete(id);
    }
    draw();
  }

  /** Handles an event: reloads a shown document, or the first page for a new one. */
  function onEvent(type, data) {
    if (type !== "document" && (type !== "hello" || data.resumed)) return;
    if (type === "hello") { if (!filters.q) soon(); }  // events before this one are not delivered
    else if (shown.has(data.document_id)) refresh(data.document_id).catch(complain);
    else if (!filters.q && data.status !== "deleted") soon();
    recount();
  }

  /** Runs `work` at most once per 150 ms: a hundred files cause hundreds of events. */
  const throttled = (work) => {
    let timer = 0;
    return () => { timer ||= setTimeout(() => { timer = 0; work().catch(complain); }, 150); };
  };
  const soon = throttled(newest), recount = throttled(count);

  /** Reloads the first page and keeps the pages loaded below it. */
  async function newest() {
    const mine = turn, found = await get(`/documents?${parameters()}`, signal);
    if (mine !== turn || filters.q || signal.aborted) return;
    const before = shown;
    shown = new Map(found.documents.map((one) => [one.document_id, { document: one, plain: true, drawn: before.get(one.document_id)?.drawn }]));
    if (!found.next_cursor) cursor = null;
    else for (const [id, hit] of before) if (!shown.has(id)) shown.set(id, hit);
    draw();
  }

  async function count() {
    const { counts, total: all } = await get("/documents/counts", signal);
    write(total, all ? plural(all, "document") : "");
    adding.classList.toggle("slim", all > 0);
    renew(states, JSON.stringify([counts, filters.status]), () => STATES.filter(([state]) => !state || counts[state] || filters.status === state).map(([state, words]) =>
      h("button", { type: "button", "aria-pressed": String((filters.status || "") === state), class: state && `of-${state}`, "data-name": state,
        onclick: () => change({ status: state }) }, words, state && h("span.count", {}, String(counts[state] || 0)))));
    states.hidden = states.children.length < 2;
    const offered = (await get("/tags?limit=12", signal)).tags;
    renew(tags, JSON.stringify([offered, filters.tag]), () => [
      filters.tag && h("button.chip.on", { type: "button", "data-name": filters.tag, "aria-label": `No longer only ${filters.tag}`, onclick: () => change({ tag: "" }) }, `${filters.tag} ✕`),
      ...offered.filter((tag) => tag.name !== filters.tag).map((tag) => h("button.chip", { type: "button", "data-name": tag.name,
        onclick: () => change({ tag: tag.name }) }, tag.name, h("span.count", {}, String(tag.documents))))]);
  }

  function change(news) {
    filters = { ...filters, ...news };
    history.replaceState(null, "", address());
    begin();
  }

  function begin() {
    if (box.value.trim() !== filters.q) box.value = filters.q;
    retryAll.hidden = !["failed", "stale", "needs_classification"].includes(filters.status);
    drawLooks();
    count().catch(complain);
    load().catch(complain);
  }

  function drawLooks() {
    renew(looks, look, () => ["cards", "table"].map((one) => h("button", { type: "button", "data-name": one, "aria-pressed": String(look === one), title: `As ${one}`, "aria-label": `As ${one}`,
      onclick: () => {
        look = one;
        sessionStorage.setItem(LOOK, one);
        for (const hit of shown.values()) hit.drawn = null;
        cards.replaceChildren();
        rows.replaceChildren();
        list.replaceChildren();
        drawLooks();
        draw();
      } }, icon(one))));
  }

  box.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ q: box.value.trim() }), TYPING_MS);
  });
  box.addEventListener("keydown", (event) => { if (event.key === "Escape" && box.value) { event.stopPropagation(); box.value = ""; change({ q: "" }); } });

  fill(main,
    h("div.head", {}, h("div", {}, h("div.titles", {}, h("h1", { tabindex: "-1" }, "Vault"), total)),
      h("div.tools", {}, action([icon("download"), "Export"], () => {
        const wanted = parameters();
        wanted.delete("limit");
        return download(`/documents/export?${wanted}`, "quire-export.zip");
      }))),
    adding,
    h("div.finder", {}, h("label.searchbox", {}, icon("search"), box), looks),
    h("div.bar.filters", {}, states, tags),
    retryAll, remark, list, below);
  fill(list, h("ul.cards", { "aria-busy": "true", "aria-label": "Loading" }, ...Array.from({ length: 6 }, () =>
    h("li.card", {}, h("div.thumb"), h("div.body", {}, skeleton(3))))));
  begin();

  events("/documents/events", (type, data) => { live = true; onEvent(type, data); }, signal, () => false).then(() => { live = false; });
  // Progress is not an event; and without a stream this polls for changes.
  repeat(async () => {
    const pending = [...shown.values()].map((hit) => hit.document).filter((one) => one.status === "pending").slice(0, 12);
    await Promise.all(pending.map((one) => refresh(one.document_id)));
    if (!live && !filters.q && shown.size) await newest();
    return pending.length ? 1 : live ? 20 : 4;
  }, signal, complain);

  return { show: ({ query: now }) => { filters = read(now); begin(); } };
}

const read = (query) => ({ q: query.get("q") || "", status: query.get("status") || "", tag: query.get("tag") || "" });

function empty(filters) {
  if (filters.q || filters.status || filters.tag) {
    return h("div.empty", {}, h("p.lead", {}, "Nothing found"), h("p", {}, "Try other words, or ", h("a", { href: "#/vault" }, "see all documents"), "."));
  }
  return h("div.empty", {}, h("p.lead", {}, "Nothing here yet"),
    h("p", {}, "Drop a PDF, a scan or a letter on this page. It is read, titled, dated and tagged, and can be found by any word in it."));
}
