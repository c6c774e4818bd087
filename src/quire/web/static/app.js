// The application: which view the address asks for, the key, and whether the service is there.

import { oneDocument } from "./document.js";
import { documents } from "./documents.js";
import { say } from "./element.js";
import { operations } from "./operations.js";
import { key } from "./service.js";

const main = document.getElementById("main");
const forget = document.getElementById("forget");
let current = { name: "", stop: new AbortController() };

function route() {
  const asked = location.hash.slice(1) || "/documents";
  const one = /^\/documents\/([0-9a-f-]{36})(?:\/page\/(\d{1,9}))?$/.exec(asked);
  const name = one ? one[1] : asked === "/operations" ? "operations" : "documents";
  if (name === current.name && one) return void current.view?.show(Number(one[2]) || null);
  if (name === current.name) return;
  current.stop.abort();
  document.getElementById("notices").replaceChildren();
  const first = !current.name, stop = new AbortController();
  current = { name, stop };
  for (const link of document.querySelectorAll("[data-view]")) {
    const here = link.dataset.view === (one ? "documents" : name);
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (one) current.view = oneDocument(main, one[1], Number(one[2]) || null, stop.signal);
  else (name === "operations" ? operations : documents)(main, stop.signal);
  document.title = `${one ? "Document" : name[0].toUpperCase() + name.slice(1)} · Quire`;
  if (!first) main.querySelector("h1")?.focus();
}

key.ask = (why) => new Promise((resolve) => {
  const dialog = document.getElementById("key"), input = document.getElementById("key-text");
  document.getElementById("key-why").textContent = why;
  input.value = "";
  dialog.returnValue = "";
  dialog.addEventListener("close", () => {
    const given = dialog.returnValue === "use" ? input.value.trim() : "";
    if (given) key.set(given);
    input.value = "";
    forget.hidden = !key.get();
    resolve(Boolean(given));
  }, { once: true });
  dialog.showModal();
});

forget.hidden = !key.get();
forget.addEventListener("click", () => { key.set(""); location.reload(); });

window.addEventListener("reached", ({ detail: yes }) => {
  const banner = document.getElementById("offline");
  if (banner.hidden !== yes) say(yes ? "The service answers again." : "");
  banner.hidden = yes;
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be taken for a view
  main.focus();
});
window.addEventListener("hashchange", route);
window.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, select, textarea, dialog[open]");
  if (event.key === "Escape" && !busy && current.view) location.hash = "#/documents";
});
route();
