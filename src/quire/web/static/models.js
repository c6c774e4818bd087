// Models: the AI models with their breakers, limits and calls in flight.

import { ago, fill, h, money, plural } from "./element.js";

const BREAKERS = { closed: ["good", "✓ In use"], half_open: ["warn", "… Half-open (probe)"], open: ["bad", "✕ Breaker open"] };

export function models(panel, found) {
  if (!found.configured) {
    return fill(panel, h("h2", {}, "AI models"), h("p.hint", {}, "None is configured: pages are read on this machine. Set OPENAI_API_KEY or ANTHROPIC_API_KEY to use one."));
  }
  const used = found.usage_this_month;
  fill(panel, h("div.bar", {}, h("h2", {}, "AI models"), h("span.gap"), h("span.hint", {},
    `This month ${plural(used.calls, "call")}, ${plural(used.tokens_in + used.tokens_out, "token")}, ${money(used.cost_usd)}`)),
  h("p.hint", {}, `Asked in the order ${found.order.join(", ")}. ${plural(found.waiting, "page")} waiting for a free model.`),
  h("ul.models", {}, ...found.models.map(model)),
  found.recent_errors.length > 0 && h("details", {}, h("summary", {}, `Latest errors (${found.recent_errors.length})`),
    h("ul.errors", {}, ...found.recent_errors.map((one) => h("li", {}, h("code", {}, one.model), ` ${one.code} `, h("span.hint", {}, one.at ? ago(one.at) : ""))))));
}

function model(one) {
  const [tone, words] = BREAKERS[one.state] || ["idle", one.state];
  const rest = one.state === "open" ? `, ${Math.ceil(one.opens_in_seconds)} s` : "";
  return h(`li.model.${tone}`, {},
    h("div.bar", {}, h("strong", {}, one.model), h("span.hint", {}, one.provider), h("span.gap"), h(`span.badge.${tone}`, {}, words + rest)),
    meter("In flight", one.in_flight, one.in_flight_allowed, `${one.in_flight} of ${one.in_flight_allowed} (at most ${one.in_flight_max})`),
    meter("Requests", one.requests_used, one.requests_per_minute, share(one.requests_used, one.requests_per_minute)),
    meter("Tokens", one.tokens_used, one.tokens_per_minute, share(one.tokens_used, one.tokens_per_minute)),
    h("p.hint", {}, `${plural(one.calls_ok, "call")} answered, ${one.calls_failed.toLocaleString()} failed${one.last_error ? `, the last one: ${one.last_error}` : ""}`));
}

const share = (used, limit) => (limit ? `${Math.round(used).toLocaleString()} of ${limit.toLocaleString()} a minute` : "no known limit");

function meter(label, used, limit, words) {
  return h("div.meter", {}, h("span", {}, label), h("progress", { max: limit || 1, value: limit ? Math.min(used, limit) : 0, "aria-label": label }), h("span.hint", {}, words));
}
