// Pages: the grid of a document's pages. Loaded in pieces as they become visible, so that thousands of pages stay usable.

import { complain, fill, h, readBy, write } from "./element.js";
import { get } from "./service.js";

const PIECE = 200;
const SETTLE_MS = 250; // an image is rendered for each chosen page; a held arrow key must not request all of them

const LOOKS = {
  queued: ["idle", "·", "waiting"], processing: ["busy", "…", "being read"], failed: ["bad", "✕", "failed"],
  cancelled: ["idle", "–", "cancelled"], done: ["good", "✓", "read"], ocr: ["ocr", "O", "read by OCR"],
  ai: ["ai", "A", "read by AI"], fallback: ["warn", "!", "fallback text"], low: ["warn", "?", "low confidence"],
  unlike: ["warn", "?", "not as the page"], lacking: ["warn", "?", "words missing"], empty: ["idle", "∅", "no text"],
};

const BY_AI = ["ai", "cache"]; // a model may leave out a page number; an answer may have been kept

/** The status of a page in the grid: tone, sign, words. */
export function look(page) {
  if (page.status !== "completed") return LOOKS[page.status] || LOOKS.queued;
  if (page.source?.endsWith("fallback")) return LOOKS.fallback;
  if (page.grade === "low") return LOOKS.low; // also one with letters that no reader could read
  if (page.words === 0) return LOOKS.empty;
  const why = page.reason || [];
  if (page.ungrounded || page.ungrounded_numbers || why.includes("words_not_on_page")) return LOOKS.unlike;
  if (page.words_missing && (!BY_AI.includes(page.source) || why.includes("text_left_out"))) return LOOKS.lacking;
  return BY_AI.includes(page.source) ? LOOKS.ai : LOOKS[page.source] || LOOKS.done;
}

export function pages(id, onChosen, signal) {
  const grid = h("div.grid", { role: "listbox", "aria-label": "Pages", tabindex: "-1" });
  const legend = h("p.legend", { "aria-hidden": "true" }, ...["done", "ai", "ocr", "fallback", "low", "unlike", "failed", "queued", "empty"]
    .map((name) => h("span", {}, h(`i.${LOOKS[name][0]}`, {}, LOOKS[name][1]), ` ${LOOKS[name][2]}`)));
  const cells = new Map(), places = [], visible = new Set();
  let pieces = [], total = 0, chosen = null, settling = 0, plain = true;

  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const piece = pieces.find((one) => one.element === target);
      if (!piece) continue;
      if (isIntersecting) { visible.add(piece); load(piece).catch(complain); } else visible.delete(piece);
    }
  }, { root: grid, rootMargin: "400px 0px" });
  signal.addEventListener("abort", () => seen.disconnect());

  function open(job) {
    plain = !job.options?.pages;
    if (!job.total_pages || job.total_pages === total) return;
    total = job.total_pages;
    cells.clear();
    places.length = 0;
    pieces = Array.from({ length: Math.ceil(total / PIECE) }, (_, index) => {
      const first = index * PIECE, count = Math.min(PIECE, total - first);
      const body = h("div.cells", { role: "group", "aria-label": `Pages from ${first + 1}` });
      body.append(...Array.from({ length: count }, () => h("span.cell.bone")));
      return { first, body, element: h("div", {}, total > PIECE && h("p.hint", {}, `${first + 1}–${first + count}`), body) };
    });
    fill(grid, ...pieces.map((piece) => piece.element));
    for (const piece of pieces) seen.observe(piece.element);
  }

  function load(piece) {
    piece.loading ??= get(`/jobs/${id}/pages?offset=${piece.first}&limit=${PIECE}`, signal).then(({ pages: found }) => {
      if (!piece.filled) {
        found.forEach((page, index) => { places[piece.first + index] = cell(page.page_number, piece.first + index); });
        fill(piece.body, ...found.map((page) => cells.get(page.page_number).button));
        piece.filled = true;
      }
      for (const page of found) draw(page.page_number, page);
    }).catch((error) => { piece.loading = null; throw error; });
    return piece.loading;
  }

  function cell(number, place) {
    const sign = h("i"), button = h("button.cell", { type: "button", role: "option", tabindex: "-1",
      "aria-selected": "false", onclick: () => choose(number) }, h("span", {}, String(number)), sign);
    cells.set(number, { button, sign, place });
    return number;
  }

  function draw(number, page) {
    const found = cells.get(number);
    if (!found) return;
    const [tone, sign, words] = look(page);
    found.button.className = `cell ${tone}`;
    write(found.sign, sign);
    found.button.setAttribute("aria-label", `Page ${number}, ${words}`);
    found.button.title = page.source ? `Page ${number}: ${readBy(page.source)}` : `Page ${number}: ${words}`;
    if (number === chosen) mark(number);
  }

  function mark(number) {
    for (const { button } of [cells.get(chosen), cells.get(number)].filter(Boolean)) {
      button.setAttribute("aria-selected", "false");
      button.tabIndex = -1;
    }
    chosen = number;
    const found = cells.get(number);
    found?.button.setAttribute("aria-selected", "true");
    if (found) found.button.tabIndex = 0;
  }

  function choose(number) {
    mark(number);
    onChosen(number);
  }

  /** Selects a page without calling `onChosen`; the first one for null. Returns its number. */
  async function select(number) {
    if (!pieces.length) return null;
    if (number && plain && pieces[Math.floor((number - 1) / PIECE)]) await load(pieces[Math.floor((number - 1) / PIECE)]);
    for (const piece of number ? pieces : [pieces[0]]) {
      if (cells.has(number)) break;
      await load(piece);
    }
    const found = cells.has(number) ? number : places.find(Boolean);
    mark(found);
    const { button } = cells.get(found);
    grid.scrollTop += button.getBoundingClientRect().top - grid.getBoundingClientRect().top - grid.clientHeight / 3;
    return found;
  }

  /** Selects the page `by` places after the chosen one. */
  async function step(by, focus = false) {
    const from = cells.get(chosen)?.place ?? 0;
    const place = Math.max(0, Math.min(total - 1, from + by));
    await load(pieces[Math.floor(place / PIECE)]);
    mark(places[place]);
    const { button } = cells.get(chosen);
    if (focus) button.focus();
    clearTimeout(settling);
    settling = setTimeout(() => onChosen(chosen), focus ? SETTLE_MS : 0);
  }

  grid.addEventListener("keydown", (event) => {
    const columns = getComputedStyle(pieces[0].body).gridTemplateColumns.split(" ").length;
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -total, End: total,
      PageUp: -columns * 5, PageDown: columns * 5 }[event.key];
    if (!by) return;
    event.preventDefault();
    step(by, true).catch(complain);
  });

  /** Reloads the visible pieces now and the others when they become visible. */
  function refresh() {
    for (const piece of pieces) piece.loading = null;
    return Promise.all([...visible].map(load)).catch(complain);
  }

  return { element: h("section.pagelist", {}, h("h2", {}, "Pages"), grid, legend), open, draw, select, step, refresh };
}
