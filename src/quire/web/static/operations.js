// Operations: health, queues, workers, and work that was given up.

import { action, ago, complain, fill, h, plural, say, skeleton } from "./element.js";
import { get, post, repeat } from "./service.js";

export function operations(main, signal) {
  const health = h("section.panel", {}, skeleton(1));
  const queues = h("section.panel", {}, skeleton(4));
  const workers = h("section.panel", {}, skeleton(2));
  const letters = h("section.panel.wide", {}, skeleton(3));
  fill(main, h("h1", { tabindex: "-1" }, "Operations"), h("div.panels", {}, health, queues, workers, letters));
  let seen = "";

  async function refresh() {
    const [state, work, dead] = await Promise.all([
      get("/health", signal).catch((error) => { if (error.status !== 503) throw error; return { status: "unavailable" }; }),
      get("/queues", signal), get("/dlq", signal),
    ]);
    // Drawn only when something has changed: what has the focus keeps it.
    const now = JSON.stringify([state.status, work.queues, work.documents_active, dead]);
    drawHealth(health, state, work);
    drawWorkers(workers, work.workers);
    if (now !== seen) {
      drawQueues(queues, work.queues);
      drawLetters(letters, dead.letters, refresh);
      seen = now;
    }
    return 3;
  }
  repeat(refresh, signal, complain);
}

function drawHealth(panel, state, work) {
  const good = state.status === "ok";
  const hours = Math.floor((state.uptime_seconds || 0) / 3600), minutes = Math.floor((state.uptime_seconds || 0) / 60) % 60;
  fill(panel, h("h2", {}, "Health"),
    h("p", {}, h(`span.badge.${good ? "good" : "bad"}`, {}, good ? "✓ In order" : "✕ Unavailable"),
      state.failing?.length ? ` ${state.failing.join(", ")} can't be used` : ""),
    facts([["Documents in work", `${work.documents_active} of at most ${work.documents_max.toLocaleString()}`],
      ["Entries waiting", state.queue_depth ?? "unknown"], ["Up for", `${hours} h ${minutes} min`], ["Version", state.version]]));
}

function drawQueues(panel, found) {
  fill(panel, h("h2", {}, "Queues"), table(["Queue", "Waiting", "Delayed", "Dead"], found.map((queue) => [
    queue.queue, queue.waiting, queue.delayed, queue.dead ? h("strong.bad", {}, `! ${queue.dead}`) : 0])));
}

function drawWorkers(panel, found) {
  fill(panel, h("h2", {}, "Workers"), found.length
    ? table(["Worker", "Last seen"], found.map((worker) => [h("code", {}, worker.worker_id), worker.last_seen_at ? ago(worker.last_seen_at) : "never"]))
    : h("p.error", {}, "No worker is running: documents wait. Start one with quire worker."));
}

function drawLetters(panel, found, refresh) {
  const rows = found.map((letter) => {
    const page = /^p(\d+)$/.exec(letter.unit);
    const place = page ? `#/documents/${letter.main_job_id}/page/${page[1]}` : `#/documents/${letter.main_job_id}`;
    return [letter.queue, h("a", { href: place }, page ? `Page ${page[1]}` : "Document"), letter.reason, letter.at ? ago(letter.at) : "",
      action("Replay", async () => {
        const answer = await post(`/dlq/${letter.queue}/${letter.entry_id}/replay`);
        say(answer.retried ? "It is being tried again." : "There is nothing better to get.");
        await refresh();
      }, ".small")];
  });
  fill(panel, h("h2", {}, "Dead letters"), rows.length
    ? [h("p.hint", {}, `${plural(rows.length, "piece")} of work given up after all attempts, the newest first.`),
      table(["Queue", "Belongs to", "Why", "When", ""], rows)]
    : h("p.hint", {}, "None. Work that was given up after all attempts would be listed here, to be tried again."));
}

function facts(pairs) {
  return h("dl.facts", {}, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value ?? ""))]));
}

function table(heads, rows) {
  return h("div.scroll", {}, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell)))))));
}
