// The application: routes the address to a view, shows the signed-in user and whether the service is reachable.

import { conversions } from "./conversions.js";
import { oneConversion } from "./conversion.js";
import { oneDocument } from "./document.js";
import { say } from "./element.js";
import { keys } from "./keys.js";
import { signIn } from "./login.js";
import { operations } from "./operations.js";
import { access, session } from "./service.js";
import { vault } from "./vault.js";

const main = document.getElementById("main");
const leave = document.getElementById("leave");
let current = { name: "", stop: new AbortController() };

const VIEWS = [
  [/^\/vault\/([0-9a-f-]{36})(?:\/page\/(\d{1,9}))?$/, "vault", "Document", oneDocument],
  [/^\/jobs\/([0-9a-f-]{36})(?:\/page\/(\d{1,9}))?$/, "jobs", "Conversion", oneConversion],
  [/^\/jobs$/, "jobs", "Conversions", conversions],
  [/^\/operations$/, "operations", "Operations", operations],
  [/^\/keys$/, "operations", "API keys", keys],
  [/^/, "vault", "Vault", vault],
];

/** A view is `view(main, asked, signal)`; it may return `show(asked)`, called when only the rest of the address changes. */
function route() {
  const [path, query] = (location.hash.slice(1) || "/vault").split("?");
  const [pattern, section, title, view] = VIEWS.find(([one]) => one.test(path));
  const [, id, page] = pattern.exec(path);
  const asked = { id, page: Number(page) || null, query: new URLSearchParams(query) };
  const name = `${title} ${id || ""}`;
  if (name === current.name) return void current.view?.show(asked);
  current.stop.abort();
  document.getElementById("notices").replaceChildren();
  const first = !current.name, stop = new AbortController();
  current = { name, stop, up: id ? `#/${section}` : "" };
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === section) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title} · Quire`;
  current.view = view(main, asked, stop.signal);
  window.scrollTo(0, 0);
  if (!first) main.querySelector("h1")?.focus();
}

async function greet() {
  const found = await session.current().catch(() => ({}));
  document.getElementById("who").textContent = access.key() ? "API key" : found.user || "";
  leave.textContent = access.key() ? "Forget key" : "Sign out";
  leave.hidden = !access.key() && !found.signed_in;
}

access.ask = signIn;
leave.addEventListener("click", async () => {
  if (access.key()) access.use("");
  else await session.end().catch(() => {});
  location.reload();
});
window.addEventListener("signed-in", greet);
window.addEventListener("reached", ({ detail: yes }) => {
  const banner = document.getElementById("offline");
  if (banner.hidden !== yes) say(yes ? "The service answers again." : "");
  banner.hidden = yes;
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // its address would be routed as a view
  main.focus();
});
window.addEventListener("hashchange", route);
window.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, select, textarea, dialog[open]");
  if (event.key === "Escape" && !busy && current.up) location.hash = current.up;
  if (event.key === "/" && !busy && !event.ctrlKey && !event.metaKey) {
    const box = main.querySelector("input[type=search]");
    if (box) { event.preventDefault(); box.focus(); }
  }
});
greet();
route();
