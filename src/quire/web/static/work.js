// Work: the page grid of one conversion and the selected page, live.

import { complain, fill, h, renew, say, skeleton, statusOf } from "./element.js";
import { extraction } from "./extraction.js";
import { page } from "./page.js";
import { pages } from "./pages.js";
import { events, get, over } from "./service.js";

/** `place(number)` is the address of a page; `onJob(job)` is called after every change of the conversion. */
export function work(id, number, { place, onJob }, signal) {
  const element = h("div.work", {}, skeleton(6));
  let job = null, following = false;

  const sheet = page(id, { step: (by) => grid.step(by), retried: () => follow() }, signal);
  const grid = pages(id, (chosen) => {
    history.replaceState(null, "", place(chosen));
    sheet.show(chosen, plainTotal());
  }, signal);

  const values = extraction(id, cite, signal);

  // "of 12" would mislead where only some pages were asked for.
  const plainTotal = () => (job.options.pages ? null : job.total_pages);

  /** Shows the current state; may be called again. Rejects if there is no such conversion. */
  async function begin() {
    job = await get(`/jobs/${id}`, signal);
    onJob(job);
    await unfold();
    if (!over(job.status)) follow();
  }

  /** Opens the page of a citation at its words. */
  async function cite(citation) {
    const found = await grid.select(citation.page);
    if (found !== citation.page) throw new Error(`Page ${citation.page} is not among the pages that were read.`);
    history.replaceState(null, "", place(found));
    sheet.cite(citation);
    if (found !== sheet.number()) sheet.show(found, plainTotal());
    sheet.element.focus({ preventScroll: true });
    sheet.element.scrollIntoView({ block: "start" });
  }

  /** Shows the pages, once it is known how many there are. */
  async function unfold() {
    values.update(job);
    if (!job.total_pages) {
      if (over(job.status)) element.replaceChildren();
      return;
    }
    const first = !grid.element.isConnected;
    if (first) fill(element, values.element, grid.element, sheet.element);
    grid.open(job);
    if (!first) return void (over(job.status) && grid.refresh());
    const chosen = await grid.select(number);
    if (chosen) sheet.show(chosen, plainTotal());
  }

  async function follow() {
    if (following) return;
    following = true;
    try {
      await events(`/jobs/${id}/events`, heard, signal);
      if (signal.aborted) return;
      job = await get(`/jobs/${id}`, signal);
      onJob(job);
      say(`${job.filename}: ${statusOf(job).words}`);
      await unfold();
      await grid.refresh();
      if (sheet.number()) sheet.show(sheet.number(), plainTotal());
    } catch (failure) { complain(failure); } finally { following = false; }
  }

  function heard(type, data) {
    const { pages: changed = [], at, ...news } = data;
    job = { ...job, ...news, error: news.error ?? null, total_pages: news.total_pages || job.total_pages };
    onJob(job);
    unfold().catch(complain);
    if (type === "snapshot") grid.refresh();
    for (const one of changed) grid.draw(one.number, one);
    if (changed.some((one) => one.number === sheet.number())) sheet.show(sheet.number(), plainTotal());
  }

  return {
    element, begin, follow,
    show: (asked) => grid.select(asked)
      .then((found) => found && found !== sheet.number() && sheet.show(found, plainTotal())).catch(complain),
  };
}

/** Links to the pages that failed, to those with fallback text only and to those that may be wrong. */
export function attention(element, job, place) {
  const meta = job.metadata || {};
  const links = ([label, numbers = []]) => numbers.length ? [`${label}: `, ...numbers.slice(0, 20).flatMap((one) =>
    [h("a", { href: place(one) }, String(one)), " "]), numbers.length > 20 ? "… " : ""] : [];
  const groups = [["Failed pages", meta.failed_pages], ["Fallback text on pages", meta.fallback_pages],
    ["Low confidence on pages", meta.low_confidence_pages],
    ["Words missing on pages", meta.words_missing_pages], ["Not supported by their page, on pages", meta.ungrounded_pages],
    ["Words that are not on the page, on pages", meta.altered_pages], ["By AI, not checked", meta.unchecked_pages]];
  renew(element, JSON.stringify(groups), () => groups.map(links).filter((one) => one.length)
    .flatMap((one, index) => index ? [" · ", ...one] : one));
}
