// Conversion: one conversion job with its pages, live.

import { action, ago, complain, fill, h, money, plural, say, showStatus, size, statusOf, write } from "./element.js";
import { download, over, post } from "./service.js";
import { attention, work } from "./work.js";

export function oneConversion(main, { id, page }, signal) {
  const title = h("h1", { tabindex: "-1" }, "…"), badge = h("span.badge"), about = h("p.hint.about"), tools = h("div.tools");
  const bar = h("progress", { max: 100, "aria-label": "Progress" }), error = h("p.error"), look = h("p.attention");
  const place = (number) => `#/jobs/${id}/page/${number}`;
  const shown = work(id, page, { place, onJob: draw }, signal);
  let drawn = "";

  function draw(job) {
    const how = statusOf(job), name = job.filename || id;
    write(title, name);
    document.title = `${name} · Quire`;
    showStatus(badge, how);
    bar.value = job.progress;
    bar.hidden = over(job.status);
    const took = job.completed_at && (new Date(job.completed_at) - new Date(job.started_at || job.created_at)) / 1000;
    const done = job.pages_completed + job.pages_failed, meta = job.metadata || {};
    write(about, [meta.title !== name && meta.title, job.total_pages && (over(job.status) ? plural(job.total_pages, "page")
      : `${done} of ${plural(job.total_pages, "page")} read`), meta.total_words && plural(meta.total_words, "word"), size(job.size),
    `added ${ago(job.created_at)}`, over(job.status) && took > 0 && `took ${took < 90 ? `${took.toFixed(1)} s` : `${Math.round(took / 60)} min`}`,
    job.usage?.cost_usd > 0 && `cost ${money(job.usage.cost_usd)}`, job.timeout_occurred && "the deadline passed before all pages were read"]
      .filter(Boolean).join(" · "));
    write(error, job.error?.error || "");
    const state = `${job.status} ${how.tone} ${job.epoch}`;
    if (state === drawn) return;
    drawn = state;
    attention(look, job, place);
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
    if (answer.retried) shown.follow();
    else complain(new Error("Nothing to retry: every page was already read in the best available way."));
  }

  fill(main, h("div.head", {}, h("div", {}, h("a.back", { href: "#/jobs" }, "← Conversions"),
    h("div.titles", {}, title, badge), about), tools), bar, error, look, shown.element);
  shown.begin().catch((failure) => { shown.element.replaceChildren(); write(title, "Not found"); complain(failure); });
  return { show: ({ page: asked }) => shown.show(asked) };
}
