// Page: its image beside its Markdown, and how it was read.

import { action, complain, fill, h, money, plural, readBy, say, showStatus, skeleton, write } from "./element.js";
import { markdown } from "./markdown.js";
import { look } from "./pages.js";
import { blob, get, over, post, text } from "./service.js";

const MOST_QUOTES = 5, LONGEST_QUOTE = 160;

/** Where a box of the upright page is on its picture, which shows the page as it came: left, top, width, height as shares. */
function onPicture([x0, y0, x1, y1], { width, height, turned = 0 }) {
  for (let left = turned; left > 0; left -= 90) [x0, y0, x1, y1, width, height] = [height - y1, x0, height - y0, x1, height, width];
  return { left: x0 / width, top: y0 / height, width: (x1 - x0) / width, height: (y1 - y0) / height };
}

/** `on.step(by)` shows a neighbour; `on.retried()` is called when a retry has started. */
export function page(id, on, signal) {
  const title = h("h2"), badge = h("span.badge"), facts = h("dl.facts.inline"), error = h("p.error");
  const picture = h("figure", { "aria-label": "Picture of the page" }), article = h("article.markdown", { "aria-label": "Text of the page", tabindex: "0" });
  const source = h("button.quiet.small", { type: "button", "aria-pressed": "false", onclick: () => {
    source.setAttribute("aria-pressed", String(source.getAttribute("aria-pressed") !== "true"));
    write_text();
  } }, "Show source");
  const copy = action("Copy", async () => { await navigator.clipboard.writeText(shown); say("Copied."); }, ".quiet.small");
  const retry = action("Retry page", async () => {
    const answer = await post(`/jobs/${id}-p${number}/retry`);
    say(answer.retried ? `Page ${number} is being read again.` : "Nothing to retry: the page was already read in the best available way.");
    on.retried();
  }, ".small");
  const doubts = h("p.attention");
  const quote = h("blockquote"), back = h("button.quiet.small", { type: "button", onclick: () => cited.from.focus() }, "Back to the value");
  const proof = h("div.proof", { hidden: true }, quote, back);
  const element = h("section.page", { "aria-label": "Page", tabindex: "-1" },
    h("div.bar", {}, h("button.quiet", { type: "button", "aria-label": "Previous page", onclick: () => on.step(-1) }, "‹"), title,
      h("button.quiet", { type: "button", "aria-label": "Next page", onclick: () => on.step(1) }, "›"), badge, h("span.gap"), retry),
    facts, error, doubts, proof,
    h("div.sides", {}, h("div.side", {}, h("div.bar", {}, h("h3", {}, "Original")), picture),
      h("div.side", {}, h("div.bar", {}, h("h3", {}, "Markdown"), h("span.gap"), source, copy), article)));
  let number = null, shown = "", address = "", cited = null, stop = new AbortController();
  signal.addEventListener("abort", () => { stop.abort(); URL.revokeObjectURL(address); });

  function write_text() {
    const raw = source.getAttribute("aria-pressed") === "true";
    if (raw) fill(article, h("pre", {}, shown));
    else fill(article, ...(shown.trim() ? markdown(shown) : [h("p.hint", {}, "There is no text on this page.")]));
  }

  /** Shows a page, or updates the one that is shown. */
  async function show(wanted, total) {
    stop.abort();
    stop = new AbortController();
    const mine = stop.signal, fresh = wanted !== number;
    number = wanted;
    write(title, `Page ${wanted}${total ? ` of ${total.toLocaleString()}` : ""}`);
    if (fresh) {
      if (cited?.page !== wanted) cite(null);
      fill(article, skeleton(6));
      fill(picture, h("div.bone.sheet"));
      article.scrollTop = 0;
      draw_picture(wanted, mine);
    } else if (!picture.querySelector("img")) draw_picture(wanted, mine);
    try {
      const found = await get(`/jobs/${id}-p${wanted}`, mine);
      describe(found);
      doubt(found, mine).catch(complain);
      shown = over(found.status) && found.status !== "cancelled" ? await text(`/jobs/${id}-p${wanted}/result?format=md`, mine) : "";
      if (shown || over(found.status)) write_text();
      else fill(article, h("p.hint", {}, "This page has not been read yet. Its text appears here as soon as it is done."), skeleton(4));
    } catch (failure) { complain(failure); }
  }

  /** Quotes what AI has added to the page. */
  async function doubt(found, mine) {
    const added = found.ungrounded > 0 && (await get(`/jobs/${id}/pages/${found.page_number}/elements`, mine)).elements
      .filter((one) => one.grounded === false).map((one) => one.text || (one.cells || []).map((cell) => cell.text).join(" "))
      .filter((text) => text.trim()).slice(0, MOST_QUOTES);
    fill(doubts, ...(added || []).flatMap((one, place) => [place ? " " : "Not supported by the page: ", h("q", {}, one.slice(0, LONGEST_QUOTE) + (one.length > LONGEST_QUOTE ? "…" : ""))]));
  }

  async function draw_picture(wanted, mine) {
    try {
      const made = URL.createObjectURL(await blob(`/jobs/${id}/pages/${wanted}/image`, mine));
      URL.revokeObjectURL(address);
      address = made;
      const zoom = h("button.zoom", { type: "button", "aria-pressed": "false", title: "Zoom", onclick: () =>
        zoom.setAttribute("aria-pressed", String(zoom.getAttribute("aria-pressed") !== "true")) },
      h("span.sheetbox", {}, h("img", { src: made, alt: `Picture of page ${wanted}` })));
      fill(picture, zoom);
      outline(mine).catch(complain);
    } catch (failure) {
      if (failure.name !== "AbortError") fill(picture, h("p.hint", {}, failure.message));
    }
  }

  /** Shows the words that prove a value, `{page, box, quote, from}`, as long as their page is shown; null for none. */
  function cite(citation) {
    cited = citation;
    proof.hidden = !cited;
    write(quote, cited?.quote || "");
    outline(stop.signal).catch(complain);
  }

  /** Draws the box of the citation on the picture, if both are there. */
  async function outline(mine) {
    picture.querySelector(".cited")?.remove();
    const asked = cited, image = picture.querySelector("img");
    if (!asked?.box || !image || asked.page !== number) return;
    const { pages: [measured] } = await get(`/jobs/${id}/elements?pages=${number}`, mine);
    await image.decode().catch(() => {}); // it may have been replaced meanwhile
    if (asked !== cited || !image.isConnected || !measured?.width) return;
    const mark = h("i.cited", { "aria-hidden": "true" });
    for (const [side, share] of Object.entries(onPicture(asked.box, measured))) mark.style[side] = `${share * 100}%`;
    image.after(mark);
    picture.scrollTop += mark.getBoundingClientRect().top - picture.getBoundingClientRect().top - picture.clientHeight / 3;
  }

  function describe(found) {
    const [tone, , words] = look(found);
    showStatus(badge, { tone: { ocr: "good", ai: "good" }[tone] || tone, words: words[0].toUpperCase() + words.slice(1) });
    retry.hidden = !over(found.status);
    const tokens = found.tokens_in + found.tokens_out;
    const pairs = [["Source", found.source && readBy(found.source)],
      ["Reader", [found.reader, found.provider, found.model].filter(Boolean).join(", ")],
      ["Class", found.page_class?.toLowerCase().replace("_", " ")], ["Reason", found.reason.join(", ").replaceAll("_", " ")],
      ["Attempts", found.attempts], ["Confidence", found.confidence !== null && `${Math.round(found.confidence * 100)} %`], ["Grade", found.grade],
      ["Missing words", found.words_missing > 0 && found.words_missing.toLocaleString()],
      ["Not supported by the page", found.ungrounded > 0 && [plural(found.ungrounded, "element"),
        found.ungrounded_numbers > 0 && plural(found.ungrounded_numbers, "number")].filter(Boolean).join(", ")],
      ["Words", over(found.status) && found.words.toLocaleString()], ["Cost", tokens > 0 && `${money(found.cost_usd)}, ${plural(tokens, "token")}`]];
    fill(facts, ...pairs.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
    write(error, found.error?.error || "");
  }

  return { element, show, cite, number: () => number };
}
