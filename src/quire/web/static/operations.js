// Operations: health, queues, workers, AI models, batches, dead letters.

import { action, ago, complain, fill, h, plural, say, skeleton } from "./element.js";
import { models } from "./models.js";
import { get, post, repeat } from "./service.js";

export function operations(main, _asked, signal) {
  const health = h("section.panel", {}, skeleton(1)), queues = h("section.panel", {}, skeleton(4)), workers = h("section.panel", {}, skeleton(2));
  const batches = h("section.panel", {}, skeleton(2)), ai = h("section.panel.wide", {}, skeleton(3)), letters = h("section.panel.wide", {}, skeleton(3));
  fill(main, h("h1", { tabindex: "-1" }, "Operations"), h("p.hint", {}, h("a", { href: "#/keys" }, "API keys")), h("div.panels", {}, h("div.stack", {}, health, workers), queues, batches, ai, letters));
  const seen = new Map();

  /** Redraws only after a change, so that the focus is kept. */
  function draw(panel, found, how) {
    const now = JSON.stringify(found);
    if (seen.get(panel) === now) return;
    seen.set(panel, now);
    how(panel, found);
  }

  async function refresh() {
    const [state, work, dead, dispatch, batching] = await Promise.all([
      get("/health", signal).catch((error) => { if (error.status !== 503) throw error; return { status: "unhealthy" }; }),
      get("/queues", signal), get("/dlq", signal), get("/dispatch", signal),
      get("/queue/status", signal).catch((error) => { if (error.status !== 503) throw error; return null; }),
    ]);
    drawHealth(health, state, work);
    drawWorkers(workers, work.workers);
    draw(queues, work.queues, drawQueues);
    draw(batches, batching, drawBatches);
    draw(ai, dispatch, models);
    draw(letters, dead.letters, (panel, found) => drawLetters(panel, found, refresh));
    return 3;
  }
  repeat(refresh, signal, complain);
}

function drawHealth(panel, state, work) {
  const [tone, word] = { healthy: ["good", "✓ Healthy"], degraded: ["warn", "! Degraded"] }[state.status] || ["bad", "✕ Unavailable"];
  const hours = Math.floor((state.uptime_seconds || 0) / 3600), minutes = Math.floor((state.uptime_seconds || 0) / 60) % 60;
  fill(panel, h("h2", {}, "Health"),
    h("p", {}, h(`span.badge.${tone}`, {}, word)),
    state.issues?.length ? h("ul", {}, state.issues.map((issue) => h("li", {}, issue))) : "",
    facts([["Active documents", `${work.documents_active} of at most ${work.documents_max.toLocaleString()}`],
      ["Entries waiting", state.queue_depth ?? "unknown"], ["Up for", `${hours} h ${minutes} min`], ["Version", state.version]]));
}

function drawQueues(panel, found) {
  fill(panel, h("h2", {}, "Queues"), table(["Queue", "Waiting", "Delayed", "Dead"], found.map((queue) => [
    queue.queue, queue.waiting, queue.delayed, queue.dead ? h("strong.bad", {}, `! ${queue.dead}`) : 0])));
}

function drawBatches(panel, found) {
  fill(panel, h("h2", {}, "Batches"), found
    ? [h("p", {}, h(`span.badge.${found.breaker_open ? "bad" : "good"}`, {}, found.breaker_open ? "✕ Backend unreachable" : "✓ Backend in use")),
      facts([["Images waiting", `${found.queue_depth.toLocaleString()} of at most ${found.max_queue_size.toLocaleString()}`],
        ["Batches in flight", found.batches_in_flight], ["Oldest waits", `${Math.round(found.oldest_request_age_seconds)} s`],
        ["Estimated wait", `${found.estimated_wait_time_minutes.toFixed(1)} min`]])]
    : h("p.hint", {}, "Batching is not available on this service."));
}

function drawWorkers(panel, found) {
  fill(panel, h("h2", {}, `Workers (${found.length})`), found.length
    ? table(["Worker", "Last seen"], found.map((worker) => [h("code", {}, worker.worker_id),
      worker.disk_full ? h("strong.bad", {}, "! Its disk is full: it takes no work")
        : worker.clock_behind_seconds ? h("strong.bad", {}, `! Its clock is off by ${Math.abs(worker.clock_behind_seconds)} s`)
          : worker.last_seen_at ? ago(worker.last_seen_at) : "never"]))
    : h("p.error", {}, "No worker is running: documents wait. Start one with quire worker."));
}

function drawLetters(panel, found, refresh) {
  const replay = (letter) => post(`/dlq/${letter.queue}/${letter.entry_id}/replay`);
  const rows = found.map((letter) => {
    const page = /^p(\d+)$/.exec(letter.unit), one = /^[0-9a-f-]{36}$/.test(letter.main_job_id);
    const place = page ? `#/jobs/${letter.main_job_id}/page/${page[1]}` : `#/jobs/${letter.main_job_id}`;
    return [letter.queue, one ? h("a", { href: place }, page ? `Page ${page[1]}` : "Document") : h("code", {}, letter.job_id), letter.reason, letter.at ? ago(letter.at) : "",
      action("Replay", async () => {
        const answer = await replay(letter);
        say(answer.retried ? "It is being tried again." : "Nothing to retry: the page was already read in the best available way.");
        await refresh();
      }, ".small")];
  });
  const all = found.length > 1 && action("Replay all", async () => {
    let failed = null;
    for (const letter of found) await replay(letter).catch((error) => { failed = error; });
    await refresh();
    if (failed) throw failed;
  }, ".small");
  fill(panel, h("div.bar", {}, h("h2", {}, "Dead letters"), h("span.gap"), all), rows.length
    ? [h("p.hint", {}, `${plural(rows.length, "piece")} of work failed after all attempts, the newest first.`),
      table(["Queue", "Belongs to", "Why", "When", ""], rows)]
    : h("p.hint", {}, "None. Work that failed after all attempts is listed here and can be replayed."));
}

function facts(pairs) {
  return h("dl.facts", {}, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value ?? ""))]));
}

export function table(heads, rows) {
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Table: ${heads[0]}` }, h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell)))))));
}
