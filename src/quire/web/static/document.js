// Document: one of them, live, with its pages.

import { action, ago, complain, fill, h, plural, say, showStanding, size, skeleton, standing, write } from "./element.js";
import { page } from "./page.js";
import { pages } from "./pages.js";
import { download, events, get, over, post } from "./service.js";

/** Answers `show(number)`, for when the address asks for another page. */
export function oneDocument(main, id, number, signal) {
  const title = h("h1", { tabindex: "-1" }, "…"), badge = h("span.badge"), about = h("p.hint.about"), tools = h("div.tools");
  const bar = h("progress", { max: 100, "aria-label": "Progress" }), error = h("p.error"), attention = h("p.attention");
  const work = h("div.work", {}, skeleton(6));
  let job = null, following = false, drawn = "";

  const sheet = page(id, { step: (by) => grid.step(by), retried: follow }, signal);
  const grid = pages(id, (chosen) => choose(chosen), signal);

  function choose(chosen) {
    history.replaceState(null, "", `#/documents/${id}/page/${chosen}`);
    sheet.show(chosen, plainTotal());
  }

  // "of 12" would mislead where only some pages were asked for.
  const plainTotal = () => (job.options.pages ? null : job.total_pages);

  async function begin() {
    job = await get(`/jobs/${id}`, signal);
    draw();
    await unfold();
    if (!over(job.status)) follow();
  }

  /** Shows the pages, once it is known how many there are. */
  async function unfold() {
    if (!job.total_pages) {
      if (over(job.status)) work.replaceChildren();
      return;
    }
    const first = !grid.element.isConnected;
    if (first) fill(work, grid.element, sheet.element);
    grid.open(job);
    if (!first) return;
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
      draw();
      say(`${job.filename}: ${standing(job).words}`);
      await unfold();
      await grid.refresh();
      if (sheet.number()) sheet.show(sheet.number(), plainTotal());
    } catch (failure) { complain(failure); } finally { following = false; }
  }

  function heard(type, data) {
    const { pages: changed = [], at, ...news } = data;
    job = { ...job, ...news, error: news.error ?? null, total_pages: news.total_pages || job.total_pages };
    draw();
    unfold().catch(complain);
    if (type === "snapshot") grid.refresh();
    for (const one of changed) grid.draw(one.number, one);
    if (changed.some((one) => one.number === sheet.number())) sheet.show(sheet.number(), plainTotal());
  }

  function draw() {
    const how = standing(job), name = job.filename || id;
    write(title, name);
    document.title = `${name} · Quire`;
    showStanding(badge, how);
    bar.value = job.progress;
    bar.hidden = over(job.status);
    const took = job.completed_at && (new Date(job.completed_at) - new Date(job.started_at || job.created_at)) / 1000;
    const done = job.pages_completed + job.pages_failed, meta = job.metadata || {};
    write(about, [meta.title !== name && meta.title, job.total_pages && (over(job.status) ? plural(job.total_pages, "page")
      : `${done} of ${plural(job.total_pages, "page")} read`), meta.total_words && plural(meta.total_words, "word"), size(job.size),
    `added ${ago(job.created_at)}`, over(job.status) && took > 0 && `took ${took < 90 ? `${took.toFixed(1)} s` : `${Math.round(took / 60)} min`}`,
    job.usage?.cost_usd > 0 && `cost $${job.usage.cost_usd.toFixed(4)}`, job.timeout_occurred && "time was up before all was read"]
      .filter(Boolean).join(" · "));
    write(error, job.error?.error || "");
    const state = `${job.status} ${how.tone} ${job.epoch}`;
    if (state === drawn) return;
    drawn = state;
    const links = (label, numbers = []) => numbers.length ? [`${label}: `, ...numbers.slice(0, 20).flatMap((one) =>
      [h("a", { href: `#/documents/${id}/page/${one}` }, String(one)), " "]), numbers.length > 20 ? "… " : ""] : [];
    fill(attention, ...links("Failed pages", meta.failed_pages), ...links("Fallback text on pages", meta.fallback_pages));
    fill(tools,
      job.status === "completed" && action("Download Markdown", () =>
        download(`/jobs/${id}/result?format=md`, `${name.replace(/\.[^.]+$/, "")}.md`), ".primary"),
      job.sha256 && action("Original", () => download(`/jobs/${id}/original`, name)),
      over(job.status) && action("Retry document", retry),
      !over(job.status) && action("Cancel", async () => { await post(`/jobs/${id}/cancel`); }));
  }

  async function retry() {
    const answer = await post(`/jobs/${id}/retry`);
    say(answer.retried ? "It is being read again." : "");
    if (answer.retried) follow();
    else complain(new Error("Nothing to retry: every page already came from its best route."));
  }

  fill(main, h("div.head", {}, h("div", {}, h("a.back", { href: "#/documents" }, "← Documents"),
    h("div.titles", {}, title, badge), about), tools), bar, error, attention, work);
  begin().catch((failure) => { work.replaceChildren(); write(title, "Not there"); complain(failure); });

  return {
    show: (asked) => grid.select(asked).then((found) => found && found !== sheet.number() && sheet.show(found, plainTotal())).catch(complain),
  };
}
