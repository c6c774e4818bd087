// API keys of the team: made, listed and revoked, and the audit log of these changes.

import { action, ago, complain, fill, h, money, question, say, skeleton } from "./element.js";
import { table } from "./operations.js";
import { get, remove, repeat, send } from "./service.js";

const DAY_S = 86_400;
const STATES = { valid: ["good", "✓ Valid"], expired: ["idle", "· Expired"], revoked: ["bad", "✕ Revoked"] };

export function keys(main, _asked, signal) {
  const made = h("div", { "aria-live": "polite" }), list = h("section.panel.wide", {}, skeleton(3)), audit = h("section.panel.wide", {}, skeleton(2));
  let drawn = "";

  async function refresh() {
    const [found, log] = await Promise.all([get("/keys", signal), get("/keys/audit?limit=50", signal)]);
    const now = JSON.stringify([found, log]);
    if (now !== drawn) { // redrawn only after a change, so that the focus is kept
      drawn = now;
      drawKeys(list, found.keys, refresh);
      drawAudit(audit, log.entries);
    }
    return 10;
  }

  fill(main, h("h1", { tabindex: "-1" }, "API keys"),
    h("p.hint", {}, "Keys of this team, for programs. ", h("code", {}, "quire keys"), " makes keys of other teams. ", h("a", { href: "#/operations" }, "Operations")),
    h("div.panels", {}, creation(made, refresh), list, audit));
  repeat(refresh, signal, complain);
}

function creation(made, refresh) {
  const name = h("input", { name: "name", maxlength: "200", autocomplete: "off" });
  const scope = h("select", { name: "scope" }, ...["write", "read", "admin"].map((one) => h("option", { value: one }, one)));
  const number = (label) => h("input", { name: label, type: "number", min: "0", step: "any", placeholder: "no limit" });
  const rpm = number("rpm"), budget = number("budget"), days = number("days");
  rpm.step = "1";
  const form = h("form.panel.wide", {}, h("h2", {}, "Make a key"),
    h("div.options", {}, h("label", {}, "Name", name), h("label", {}, "Scope", scope), h("label", {}, "Requests a minute", rpm),
      h("label", {}, "Budget, US dollars a month", budget), h("label", {}, "Valid for days", days)),
    h("p.actions", {}, h("button.primary", { type: "submit" }, "Make key")), made);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    button.disabled = true;
    try {
      const found = await send("/keys", { name: name.value.trim(), scope: scope.value, requests_per_minute: Number(rpm.value) || 0,
        budget_usd: Number(budget.value) || 0, expires_in_seconds: Number(days.value) * DAY_S || null });
      fill(made, h("p", {}, "The new key. It is shown only now: copy it."), h("p", {}, h("code.newkey", { tabindex: "0" }, found.key)));
      form.reset();
      await refresh();
    } catch (error) {
      complain(error);
    }
    button.disabled = false;
  });
  return form;
}

function drawKeys(panel, found, refresh) {
  const rows = found.map((key) => [key.name, h("code.id", {}, key.id), key.scope, badge(key.state), key.requests_per_minute || "no limit",
    key.budget_usd ? `${money(key.used_this_month.cost_usd)} of ${money(key.budget_usd)}` : `${money(key.used_this_month.cost_usd)}, no budget`,
    key.last_used_at ? ago(key.last_used_at) : "never", key.expires_at ? key.expires_at.slice(0, 10) : "never",
    key.state === "valid" && action("Revoke", async () => {
      if (!await question({ title: `Revoke “${key.name}”?`, text: "Programs that use it are refused within five seconds. This can't be undone.", yes: "Revoke", danger: true })) return;
      await remove(`/keys/${key.id}`);
      say("The key is revoked.");
      await refresh();
    }, ".small")]);
  fill(panel, h("h2", {}, "Keys"), rows.length
    ? table(["Name", "Id", "Scope", "State", "Requests a minute", "AI cost this month", "Last used", "Expires", ""], rows)
    : h("p.hint", {}, "None yet. Keys of API_KEYS are not listed here."));
}

function badge(state) {
  const [tone, words] = STATES[state] || ["idle", state];
  return h(`span.badge.${tone}`, {}, words);
}

function drawAudit(panel, entries) {
  fill(panel, h("h2", {}, "Audit log"), entries.length
    ? table(["When", "Action", "Key", "By"], entries.map((one) => [one.at ? ago(one.at) : "", one.action, h("code.id", {}, one.subject), one.actor]))
    : h("p.hint", {}, "No key was made or revoked yet."));
}
