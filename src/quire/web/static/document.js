// Document: one document of the vault, with its record, its pages and its actions.

import { day, named, reprocess, statusOf, tagLinks } from "./card.js";
import { action, ago, complain, fill, h, icon, money, plural, question, readBy, renew, showStatus, size, write } from "./element.js";
import { download, events, get, remove, repeat } from "./service.js";
import { attention, work } from "./work.js";

export function oneDocument(main, { id, page }, signal) {
  const title = h("h1", { tabindex: "-1" }, "…"), badge = h("span.badge"), file = h("p.hint.about"), tools = h("div.tools");
  const bar = h("progress", { max: 100, "aria-label": "Progress", hidden: true }), error = h("p.error");
  const remark = h("p.attention"), look = h("p.attention");
  const summary = h("p.summary"), facts = h("dl.facts.inline"), chips = h("p.chips"), about = h("section.panel.record", { "aria-label": "About" }, summary, chips, facts);
  const below = h("div");
  const place = (number) => `#/vault/${id}/page/${number}`;
  let found = null, job = null, shown = null, shownJob = "", version = "", drawn = "";

  async function refresh() {
    found = await get(`/documents/${id}`, signal);
    draw();
    const wanted = found.jobs?.process || "", now = `${found.attempt} ${found.status} ${found.pages}`;
    if (wanted !== shownJob) await open(wanted);
    else if (now !== version) await shown?.begin();
    version = now;
  }

  async function open(wanted) {
    shownJob = wanted;
    job = null;
    shown = wanted ? work(wanted, page, { place, onJob: (now) => { job = now; draw(); } }, signal) : null;
    fill(below, shown?.element);
    // Without a conversion (yet) only the record is shown.
    await shown?.begin().catch((failure) => { if (failure.status !== 404) throw failure; below.replaceChildren(); shownJob = ""; });
  }

  function draw() {
    if (!found) return;
    const how = statusOf(found), name = named(found);
    write(title, name);
    document.title = `${name} · Quire`;
    showStatus(badge, how);
    write(file, [found.title && found.filename, found.content_type, size(found.size), `added ${ago(found.created_at)}`].filter(Boolean).join(" · "));
    bar.hidden = found.status !== "pending";
    const progress = job?.progress ?? found.progress;
    if (progress === null) bar.removeAttribute("value");
    else bar.value = progress;
    write(error, how.tone === "bad" ? found.error?.error || "" : "");
    write(remark, how.tone === "bad" ? "" : found.error?.error || "");
    attention(look, how.tone === "bad" || !job ? {} : job, place);
    write(summary, found.summary || "");
    renew(chips, found.tags.join(), () => tagLinks(found.tags));
    const usage = job?.usage, tokens = (usage?.tokens_in || 0) + (usage?.tokens_out || 0);
    const words = job?.metadata?.total_words, sources = Object.entries(job?.sources || {});
    const pairs = [["Date", day(found.date)], ["Language", found.language], ["Pages", found.pages], ["Words", words?.toLocaleString()],
      ["Read by", sources.map(([source, count]) => `${readBy(source)} ${count}`).join(", ")],
      ["Classified by", found.classified_by === "local" ? "this machine" : found.classified_by],
      ["Cost", tokens > 0 && `${money(usage.cost_usd)}, ${plural(tokens, "token")}`],
      ["Source", found.source], ["Attached to", found.parent_id && h("a", { href: `#/vault/${found.parent_id}` }, "a mail")],
      ["Attachments", found.attachments?.length && h("span", {}, ...attachedLinks(found.attachments))], ["Attempt", found.attempt > 1 && found.attempt]];
    fill(facts, ...pairs.filter(([, value]) => value).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value instanceof Node ? value : String(value)))));
    about.hidden = !found.summary && !facts.children.length && !found.tags.length;
    const state = `${found.state} ${found.attempt} ${found.error?.code} ${Boolean(found.pages)}`;
    if (state === drawn) return;
    drawn = state;
    const stem = found.filename.replace(/\.[^.]+$/, "");
    fill(tools,
      found.pages && action([icon("download"), "Markdown"], () => download(`/documents/${id}/content`, `${stem}.md`), ".primary"),
      action("Original", () => download(`/documents/${id}/download`, found.filename)),
      (found.status !== "pending" || found.state === "stale") && action([icon("retry"), how.retry || "Reprocess"], async () => { if (await reprocess(found)) await refresh(); }),
      action("Delete", erase, ".quiet.bad"));
  }

  async function erase() {
    const sure = await question({ title: "Delete this document?", yes: "Delete", danger: true,
      text: `${named(found)} is deleted with its file, its text and its record. This can't be undone.` });
    if (!sure) return;
    await remove(`/documents/${id}`);
    location.hash = "#/vault";
  }

  fill(main, h("div.head", {}, h("div", {}, h("a.back", { href: "#/vault" }, "← Vault"),
    h("div.titles", {}, title, badge), file), tools), bar, error, remark, look, about, below);
  refresh().catch((failure) => { write(title, "Not found"); complain(failure); });
  events("/documents/events", (type, data) => {
    const missed = type === "hello" && !data.resumed;
    if (missed || [id, found?.document_id].includes(data.document_id) && data.status !== "deleted") refresh().catch(complain);
  }, signal, () => false);
  repeat(async () => { if (found?.status === "pending") await refresh(); return 2; }, signal, complain);
  return { show: ({ page: asked }) => shown?.show(asked) };
}

/** Links to the documents attached to a mail. */
function attachedLinks(attachments) {
  return attachments.flatMap(({ filename, document_id }, place) =>
    [place ? ", " : "", h("a", { href: `#/vault/${document_id}` }, filename)]);
}
