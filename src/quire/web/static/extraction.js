// Extraction: values of one document by a JSON Schema, each with the words of the page that prove it.

import { action, complain, fill, h, icon, plural, say, skeleton, write } from "./element.js";
import { table } from "./operations.js";
import { get, save, send } from "./service.js";

const AT_ONCE = 500; // rows
const EXAMPLE = '{"type": "object", "properties": {"total": {"type": "number"}}}';
const MATCHES = { exact: ["good", "✓ exact"], normalised: ["good", "✓ normalised"], fuzzy: ["warn", "! fuzzy"], none: ["bad", "✕ no proof on the page"] };
const FLAGS = { quote: "the quotation is not on the page or does not have the value", page: "the model named another page",
  invalid: "does not satisfy the schema", conflict: "other parts of the document say something else" };

/** The panel of a conversion. `onCitation({page, box, quote, from})` opens a page at its words; `from` gets the focus back. */
export function extraction(id, onCitation, signal) {
  const saved = h("select", { name: "saved" }), schema = h("textarea", { name: "schema", rows: "5", spellcheck: "false", placeholder: EXAMPLE });
  const pasted = h("label.wide", {}, "JSON Schema", schema);
  const instructions = h("textarea", { name: "instructions", rows: "2", maxlength: "8000", placeholder: "more words for the model, if needed" });
  const start = h("button.primary", { type: "submit" }, "Extract"), halt = h("button", { type: "button", hidden: true, onclick: () => stop.abort() }, "Stop");
  const error = h("p.error", { role: "alert" }), result = h("div.stack");
  const form = h("form", {}, h("div.options", {}, h("label", {}, "Schema", saved), pasted, h("label.wide", {}, "Instructions", instructions)),
    h("p.actions", {}, start, halt));
  const element = h("section.panel.wide.extraction", { "aria-label": "Extract values", hidden: true },
    h("details", { ontoggle: (event) => event.target.open && offer().catch(complain) }, h("summary", {}, "Extract values"),
      h("div.stack", {}, form, error, result)));
  let stop = new AbortController();

  async function offer() {
    const { schemas } = await get("/schemas", signal), before = saved.value;
    fill(saved, h("option", { value: "" }, "pasted below"), ...schemas.map((name) => h("option", { value: name }, name)));
    saved.value = schemas.includes(before) ? before : "";
    pasted.hidden = Boolean(saved.value);
  }

  /** What is wanted. Throws an error in words if the schema is no JSON. */
  function wanted() {
    const more = instructions.value.trim() ? { instructions: instructions.value.trim() } : {};
    if (saved.value) return { job_id: id, saved_schema: saved.value, ...more };
    if (!schema.value.trim()) throw new Error("Paste a JSON Schema, or choose a saved one.");
    try {
      return { job_id: id, schema: JSON.parse(schema.value), ...more };
    } catch (failure) {
      throw new Error(`The schema is not valid JSON: ${failure.message}`);
    }
  }

  async function extract() {
    stop = new AbortController();
    const mine = stop.signal;
    write(error, "");
    busy(true);
    try {
      const asked = wanted();
      fill(result, h("p.hint", {}, "A model looks for the values; each one is then checked against the pages."), skeleton(3));
      const found = await send("/extract", asked, AbortSignal.any([signal, mine]));
      fill(result, ...shown(found, onCitation));
      say(counted(found.fields));
    } catch (failure) {
      fill(result, ...(failure.found ? withoutAi(failure.found, onCitation) : []));
      write(error, failure.name === "AbortError" ? "" : failure.message);
    }
    busy(false);
  }

  function busy(yes) {
    start.disabled = yes;
    halt.hidden = !yes;
    result.setAttribute("aria-busy", String(yes));
  }

  /** Is offered for a document that was read; what was extracted before it is read again goes. */
  function update(job) {
    element.hidden = job.status !== "completed";
    if (!element.hidden) return;
    stop.abort();
    write(error, "");
    result.replaceChildren();
  }

  saved.addEventListener("change", () => { pasted.hidden = Boolean(saved.value); });
  form.addEventListener("submit", (event) => { event.preventDefault(); extract(); });
  return { element, update };
}

const proven = (field) => field.value !== null && field.match !== "none" && field.citations.length > 0;

function counted(fields) {
  const good = fields.filter(proven).length, unproven = fields.filter((one) => !proven(one) && !one.flags.includes("missing")).length;
  const missing = fields.length - good - unproven;
  return [`${plural(good, "value")} with proof`, unproven && `${unproven} without`, missing && `${missing} not found`].filter(Boolean).join(", ");
}

function shown(found, onCitation) {
  const rows = found.fields.map((field) => () => [h("code", {}, field.path), said(field), ground(field),
    field.confidence === null ? "" : `${Math.round(field.confidence * 100)} %`, h("div.cites", {}, ...field.citations.map((one) => citation(one, onCitation)))]);
  const json = JSON.stringify(found, null, 2), list = h("div");
  const draw = (most) => fill(list, table(["Path", "Value", "Proof", "Confidence", "Quotation"], rows.slice(0, most).map((row) => row())),
    rows.length > most && action(`Show all ${rows.length.toLocaleString()}`, async () => draw(rows.length), ".small"));
  draw(AT_ONCE);
  return [h("div.bar", {}, h("h2", {}, counted(found.fields)), h("span.gap"),
    action("Copy JSON", async () => { await navigator.clipboard.writeText(json); say("Copied."); }, ".small"),
    action([icon("download"), "JSON"], async () => save(new Blob([json], { type: "application/json" }), `${found.filename || "document"}.values.json`), ".small")),
  ...remarks(found).map((text) => h("p.attention", {}, text)), list];
}

/** What is wrong with the result as a whole. */
function remarks(found) {
  const failed = found.pages_failed.map((one) => `${one.pages.join(", ")} (${one.error})`);
  return [!found.complete && `Not complete. Pages that are missing: ${failed.join("; ") || "some"}`,
    !found.valid && `The values do not satisfy the schema: ${found.problems.map((one) => `${one.path} ${one.message}`).join("; ")}`,
    found.pages_without_text.length > 0 && `No text on pages: ${found.pages_without_text.join(", ")}`,
    found.items_rejected.length > 0 && `${plural(found.items_rejected.length, "item")} of lists left out: no page says anything of them.`].filter(Boolean);
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** The value; of one that was refused, what the model said. */
function said(field) {
  if (field.value !== null && proven(field)) return h("strong", {}, written(field.value));
  const claimed = field.value ?? field.rejected ?? null;
  return h("span.hint", {}, claimed === null ? "null" : `${field.value === null ? "null; the" : "the"} model said: ${written(claimed)}`);
}

/** How the page says it: never good where something speaks against it. */
function ground(field) {
  const doubts = field.flags.filter((flag) => FLAGS[flag]).map((flag) => FLAGS[flag]);
  if (field.citations.some((one) => one.grounded === false)) doubts.push("the words are a model's, and the page does not support them");
  const others = (field.alternatives || []).map((one) => written(one.value)).join(", ");
  const known = field.flags.includes("missing") ? ["idle", "· not found"] : proven(field) ? MATCHES[field.match] || MATCHES.none : MATCHES.none;
  const [tone, words] = doubts.length && known[0] === "good" ? ["warn", known[1].replace("✓", "!")] : known;
  return h("div", {}, h(`span.badge.${tone}`, {}, words), doubts.length > 0 && h("p.hint", {}, doubts.join("; "), others && `: ${others}`));
}

function citation({ page, box, quote }, onCitation) {
  const made = action([h("span.where", {}, `Page ${page}`), ` “${quote}”`], () => onCitation({ page, box, quote, from: made }), ".quiet.small.cite");
  return made;
}

/** What the service found by form alone, where no AI is configured. */
function withoutAi({ pairs = [], tables = [] }, onCitation) {
  if (!pairs.length && !tables.length) return [h("p.hint", {}, "Nothing was found without AI: no name-value pairs and no tables.")];
  return [h("h2", {}, "Found without AI"), h("p.hint", {}, "Found by its form alone, and not compared with the schema."),
    pairs.length > 0 && table(["Name", "Value", "Where"], pairs.map(({ key, value, ...place }) =>
      [key, value, citation({ ...place, quote: `${key}: ${value}` }, onCitation)])),
    ...tables.map(({ rows: [heads = [], ...rows], ...place }) =>
      h("div", {}, citation({ ...place, quote: "Table" }, onCitation), table(heads, rows)))];
}
