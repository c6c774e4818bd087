// Markdown: a small, safe part of it, as elements. Unknown syntax stays plain text.

import { h } from "./element.js";

const MARKER = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const STARTS = /^(#{1,6}\s|```|~~~|>|\s*([-*_])(\s*\2){2,}\s*$|\s*([-*+]|\d{1,9}[.)])\s)/;
const INLINE = new RegExp([
  /\\([!-/:-@[-`{-~])/, /(`+)(.+?)\2(?!`)/, /!\[([^\]]{0,300})\]\([^)\s]{0,2000}\)/, /\[([^\]]{1,300})\]\(([^)\s]{1,2000})\)/,
  /(\*\*|__)(?=\S)(.{1,2000}?\S|\S)\7/, /(?<!\w)([*_])(?=\S)(.{1,2000}?\S|\S)\9(?!\w)/, /~~(.{1,2000}?)~~/, /(<br\s*\/?>)/, /&(lt|gt|amp|quot|nbsp|#39);/,
].map((one) => one.source).join("|"), "gs");

const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', nbsp: "\u00a0", "#39": "'" };

/** The text as a list of elements. */
export function markdown(text) {
  try {
    return blocks(text.replace(/\r\n?/g, "\n").split("\n"));
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return [h("pre", {}, text)]; // nested too deeply to be useful
  }
}

function blocks(lines) {
  const made = [];
  for (let at = 0; at < lines.length;) {
    const [element, next] = block(lines, at);
    if (element) made.push(element);
    at = next;
  }
  return made;
}

function block(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  const fence = /^(```+|~~~+)/.exec(line);
  if (fence) {
    let end = at + 1;
    while (end < lines.length && !lines[end].startsWith(fence[1])) end += 1;
    return [h("pre", {}, h("code", {}, lines.slice(at + 1, end).join("\n"))), end + 1];
  }
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
  // One level lower: the page has a first heading already.
  if (heading) return [h(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])), at + 1];
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) return [h("hr"), at + 1];
  if (line.startsWith(">")) return quote(lines, at);
  if (line.includes("|") && DIVIDER.test(lines[at + 1] || "") && lines[at + 1].includes("|")) return table(lines, at);
  if (MARKER.test(line)) return list(lines, at);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !STARTS.test(lines[end])) end += 1;
  return [h("p", {}, ...inline(lines.slice(at, end).join("\n"))), end];
}

function quote(lines, at) {
  let end = at;
  while (end < lines.length && lines[end].startsWith(">")) end += 1;
  return [h("blockquote", {}, ...blocks(lines.slice(at, end).map((line) => line.replace(/^> ?/, "")))), end];
}

function list(lines, at) {
  const [, indent, first] = MARKER.exec(lines[at]);
  const made = h(first ? "ol" : "ul", { start: first && first !== "1" ? first : null });
  let end = at;
  while (end < lines.length) {
    const found = MARKER.exec(lines[end]);
    if (!found || found[1].length !== indent.length || Boolean(found[2]) !== Boolean(first)) break;
    const start = end;
    const deeper = (line) => line.trim() && line.search(/\S/) > indent.length;
    for (end += 1; end < lines.length; end += 1) {
      if (!deeper(lines[end]) && !(lines[end].trim() === "" && deeper(lines[end + 1] || ""))) break;
    }
    made.append(h("li", {}, ...inline(found[3]), ...blocks(lines.slice(start + 1, end).map(outdent(lines, start + 1)))));
    if (end < lines.length && !lines[end].trim() && MARKER.test(lines[end + 1] || "")) end += 1;
  }
  return [made, end];
}

function outdent(lines, at) {
  const width = Math.max(0, (lines[at] || "").search(/\S/));
  return (line) => (line.slice(0, width).trim() ? line.trimStart() : line.slice(width));
}

function table(lines, at) {
  const cells = (line) => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
  const head = cells(lines[at]);
  const rows = [];
  let end = at + 2;
  for (; end < lines.length && lines[end].includes("|"); end += 1) rows.push(cells(lines[end]));
  const row = (tag, found) => h("tr", {}, ...found.map((cell) => h(tag, {}, ...inline(cell))));
  return [h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, ...rows.map((found) => row("td", found))))), end];
}

function inline(text) {
  const made = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    made.push(text.slice(at, found.index), span(found));
    at = found.index + found[0].length;
  }
  return [...made, text.slice(at)].filter((part) => part !== "");
}

function span([whole, escaped, , code, picture, label, address, , strong, , soft, gone, broken, entity]) {
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return h("code", {}, code.trim() || code);
  if (picture !== undefined) return h("span.hint", {}, picture ? `[picture: ${picture}]` : "[picture]");
  if (label !== undefined) {
    if (!/^(https?:\/\/|mailto:)/i.test(address)) return whole;
    return h("a", { href: address, target: "_blank", rel: "noopener noreferrer nofollow" }, ...inline(label));
  }
  if (strong !== undefined) return h("strong", {}, ...inline(strong));
  if (soft !== undefined) return h("em", {}, ...inline(soft));
  if (gone !== undefined) return h("s", {}, ...inline(gone));
  if (entity !== undefined) return ENTITIES[entity];
  return broken ? h("br") : whole;
}
