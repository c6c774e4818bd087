// Uploads: the drop zone, the options of a conversion, and the progress of each file.

import { action, complain, h, icon, say, write } from "./element.js";
import { get, send, upload } from "./service.js";

const AT_ONCE = 2;

/** The panel that sends to `path`. `place(answer)` is the address of an accepted document; `onAccepted(answer)` is called for each. */
export function uploads(path, { place, onAccepted }, signal) {
  const picker = h("input.unseen", { type: "file", multiple: true, id: "files", "aria-describedby": "files-hint" });
  const engine = choice("AI provider", "engine", [["", "as configured"]]);
  const form = h("form.options", { autocomplete: "off" },
    choice("Read", "mode", [["auto", "best way for each page"], ["local", "on this machine only"], ["ai", "with AI"]]),
    engine, choice("Model tier", "model_tier", [["", "as configured"], ["primary", "primary"], ["secondary", "secondary"], ["fast", "fast"]]),
    field("Pages", "pages", { placeholder: "all, or 1-5,8" }),
    field("Password of a PDF", "password", { type: "password", autocomplete: "new-password" }),
    h("label.wide", {}, "Instructions for the AI", h("textarea", { name: "prompt", rows: "2", maxlength: "8000", placeholder: "for example: keep the line breaks of the poem" })),
    h("label.check", {}, h("input", { type: "checkbox", name: "force", value: "true" }), " Read again if it exists already"));
  const link = h("input", { type: "url", required: true, placeholder: "https://…", "aria-label": "Link to a document" });
  const waiting = [], list = h("ul.uploads", { "aria-label": "Uploads" });
  let running = 0;

  const fields = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));

  function add(files) {
    for (const file of files) {
      const item = row(path, file, fields(), { begin, place, onAccepted });
      list.append(item.element);
      waiting.push(item);
    }
    begin();
  }

  async function begin(again) {
    if (again) waiting.push(again);
    while (running < AT_ONCE && waiting.length) {
      running += 1;
      waiting.shift().start().finally(() => { running -= 1; begin(); });
    }
  }

  const zone = h("section.drop", { "aria-label": "Add documents" },
    h("p.lead", {}, h("label.button.primary", { for: "files" }, icon("upload"), "Choose files"), picker, " or drop them anywhere on this page"),
    h("p.hint", { id: "files-hint" }, "PDF, scans, photos, office files, mail, text. Several at once are fine."),
    h("details", { ontoggle: () => offerProviders(engine.querySelector("select"), signal) }, h("summary", {}, "Options, or a link instead of a file"), form,
      h("form.link", { onsubmit: async (event) => {
        event.preventDefault();
        try {
          onAccepted(taken(await send(path, { ...fields(), source: link.value.trim() })));
          link.value = "";
        } catch (error) { complain(error); }
      } }, link, h("button", { type: "submit" }, "Add link"))),
    list);

  picker.addEventListener("change", () => { add(picker.files); picker.value = ""; });
  const over = (event) => {
    if (![...(event.dataTransfer?.types || [])].includes("Files")) return;
    event.preventDefault();
    zone.classList.toggle("over", event.type === "dragover");
    if (event.type === "drop") add(event.dataTransfer.files);
  };
  for (const type of ["dragover", "drop"]) window.addEventListener(type, over, { signal });
  window.addEventListener("dragleave", (event) => event.relatedTarget || zone.classList.remove("over"), { signal });
  return zone;
}

/** The vault answers with a list, a conversion with itself. */
const taken = (answer) => answer.documents?.[0] ?? answer;

function row(path, file, fields, { begin, place, onAccepted }) {
  const bar = h("progress", { max: 100, value: 0, "aria-label": `Upload of ${file.name}` });
  const state = h("span.hint", {}, "waiting");
  const again = h("span");
  const element = h("li", {}, h("span.name", {}, file.name), bar, state, again);
  const item = { element, start };

  async function start() {
    again.replaceChildren();
    element.classList.remove("bad");
    try {
      const accepted = taken(await upload(path, file, fields, (share) => {
        bar.value = Math.round(share * 100);
        write(state, share < 1 ? `${bar.value} %` : "storing…");
      }));
      say(accepted.deduplicated ? `${file.name} exists already.` : `${file.name} was added.`);
      if (accepted.deduplicated) {
        bar.hidden = true;
        state.replaceChildren("exists already: ", h("a", { href: place(accepted) }, "open it"));
        setTimeout(() => element.remove(), 15_000);
      } else element.remove();
      onAccepted(accepted);
    } catch (error) {
      element.classList.add("bad");
      write(state, `✕ ${error.message}${error.requestId ? ` (request ${error.requestId})` : ""}`);
      again.replaceChildren(action("Try again", async () => begin(item)),
        action("Dismiss", async () => element.remove(), ".quiet"));
    }
  }
  return item;
}

/** Adds the configured AI providers to the choice, once. */
async function offerProviders(select, signal) {
  if (select.options.length > 1) return;
  const { models = [] } = await get("/dispatch", signal).catch(() => ({}));
  for (const name of new Set(models.map((model) => model.provider))) select.append(h("option", { value: name }, name));
}

function field(label, name, options) {
  return h("label", {}, label, h("input", { name, ...options }));
}

function choice(label, name, values) {
  return h("label", {}, label, h("select", { name }, ...values.map(([value, words]) => h("option", { value }, words))));
}
