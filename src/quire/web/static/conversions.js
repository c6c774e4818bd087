// Conversions: the list of conversion jobs, live, and the upload panel.

import { action, ago, complain, fill, h, plural, readBy, say, showStatus, size, skeleton, statusOf, write } from "./element.js";
import { get, over, post, repeat } from "./service.js";
import { uploads } from "./uploads.js";

const AT_ONCE = 50;

export function conversions(main, _asked, signal) {
  const rows = new Map();
  const list = h("ul.documents", { "aria-label": "Conversions" });
  const below = h("div.below");
  const filter = h("select", { "aria-label": "Show", onchange: () => restart() },
    ...[["", "All"], ["processing", "Processing"], ["queued", "Queued"], ["completed", "Completed"],
      ["failed", "Failed"], ["cancelled", "Cancelled"]].map(([value, words]) => h("option", { value }, words)));
  let jobs = null, older = null, latest = 0;

  async function refresh() {
    const turn = (latest += 1);
    const status = filter.value ? `&status=${filter.value}` : "";
    const found = await get(`/jobs?limit=${AT_ONCE}${status}`, signal);
    if (turn !== latest) return 2;
    const oldest = found.jobs.at(-1)?.created_at ?? "";
    const rest = found.next_before ? (jobs || []).filter((job) => job.created_at < oldest) : [];
    if (!rest.length) older = found.next_before;
    jobs = [...found.jobs, ...rest];
    draw();
    return jobs.some((job) => !over(job.status)) ? 1 : 5;
  }

  async function more() {
    const status = filter.value ? `&status=${filter.value}` : "";
    const found = await get(`/jobs?limit=${AT_ONCE}&before=${older}${status}`, signal);
    const known = new Set(jobs.map((job) => job.job_id));
    jobs = [...jobs, ...found.jobs.filter((job) => !known.has(job.job_id))];
    older = found.next_before;
    draw();
  }

  function draw() {
    const gone = new Set(rows.keys());
    jobs.forEach((job, place) => {
      gone.delete(job.job_id);
      if (!rows.has(job.job_id)) rows.set(job.job_id, row(job.job_id, refresh));
      const { element, update } = rows.get(job.job_id);
      update(job);
      if (list.children[place] !== element) list.insertBefore(element, list.children[place] || null);
    });
    for (const id of gone) { rows.get(id).element.remove(); rows.delete(id); }
    fill(below, !jobs.length && empty(filter.value), older && jobs.length && action("Show older", more));
  }

  function restart() {
    jobs = null;
    fill(below, skeleton(4));
    list.replaceChildren();
    rows.clear();
    refresh().catch(complain);
  }

  fill(main,
    h("div.head", {}, h("div", {}, h("h1", { tabindex: "-1" }, "Conversions"),
      h("p.hint", {}, "Every conversion to Markdown. Results are deleted after some days; add a document to the ", h("a", { href: "#/vault" }, "vault"), " to keep it."))),
    uploads("/convert", { place: (job) => `#/jobs/${job.job_id}`, onAccepted: () => refresh().catch(complain) }, signal),
    h("div.bar", {}, h("h2", {}, "Recent"), h("label.hint", {}, "Show ", filter)),
    list, fill(below, skeleton(4)));
  repeat(refresh, signal, complain);

  function row(id, again) {
    const name = h("a.name", { href: `#/jobs/${id}` });
    const badge = h("span.badge"), bar = h("progress", { max: 100 }), pages = h("span.pages"), how = h("span.how");
    const when = h("time"), error = h("p.error"), tools = h("span.tools");
    const element = h("li", {}, name, badge, bar, pages, how, when, tools, error);
    let before = "", shown = "";

    function update(job) {
      write(name, job.filename || id);
      name.title = [job.mime, size(job.size)].filter(Boolean).join(", ");
      const status_now = statusOf(job);
      showStatus(badge, status_now);
      element.className = status_now.tone;
      bar.value = job.progress;
      bar.hidden = over(job.status);
      bar.setAttribute("aria-label", `Progress of ${job.filename}`);
      const done = job.pages_completed + job.pages_failed;
      write(pages, !job.total_pages ? "" : over(job.status) && done === job.total_pages
        ? plural(job.total_pages, "page") : `${done} of ${plural(job.total_pages, "page")}`);
      write(how, Object.entries(job.sources)
        .map(([source, count]) => `${readBy(source)} ${count}`).join(", "));
      when.dateTime = job.created_at;
      when.title = new Date(job.created_at).toLocaleString();
      write(when, ago(job.created_at));
      write(error, job.error?.error || "");
      if (before && before !== job.status) say(`${job.filename}: ${status_now.words}`);
      before = job.status;
      const again_helps = job.status !== "completed" || job.pages_failed || job.mupdf_fallback_count;
      const wanted = !over(job.status) ? "cancel" : again_helps ? "retry" : "";
      if (wanted === shown) return;
      shown = wanted;
      fill(tools, wanted === "cancel" && action("Cancel", async () => { await post(`/jobs/${id}/cancel`); await again(); }, ".small"),
        wanted === "retry" && action("Retry", async () => { await post(`/jobs/${id}/retry`); await again(); }, ".small"));
    }
    return { element, update };
  }
}

function empty(filtered) {
  if (filtered) return h("p.empty", {}, "No document with this status.");
  return h("div.empty", {}, h("p.lead", {}, "Nothing here yet"),
    h("p", {}, "Drop a PDF or a picture on this page. Each page is shown as it is read, and the Markdown can be downloaded as soon as it is ready."));
}
