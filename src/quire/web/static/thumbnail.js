// Thumbnail: the first page of a document, loaded when it becomes visible, two at a time.

import { fill, h, icon } from "./element.js";
import { blob } from "./service.js";

const AT_ONCE = 2, FIRST = 1;
const waiting = [];
let running = 0;

async function begin() {
  while (running < AT_ONCE && waiting.length) {
    running += 1;
    waiting.shift()().finally(() => { running -= 1; begin(); });
  }
}

/** `show(found)` shows the image of the first page once there is one; until then a sheet with the file type. */
export function thumbnail(signal) {
  const element = h("div.thumb", { "aria-hidden": "true" });
  let wanted = "", shown = "", address = "", seen = false;

  const sight = new IntersectionObserver((entries) => {
    seen = entries.some((entry) => entry.isIntersecting);
    if (seen) look();
  }, { rootMargin: "300px" });
  sight.observe(element);
  signal.addEventListener("abort", () => { sight.disconnect(); URL.revokeObjectURL(address); });

  function look() {
    if (!wanted || wanted === shown) return;
    const job = wanted;
    shown = job;
    waiting.push(async () => {
      if (signal.aborted || !element.isConnected) return void (shown = "");
      try {
        address = URL.createObjectURL(await blob(`/jobs/${job}/pages/${FIRST}/image`, signal));
        fill(element, h("img", { src: address, alt: "" }));
      } catch { /* a document without an image keeps its sheet */ }
    });
    begin();
  }

  function show(found) {
    const picture = /^(png|jpe?g|webp|gif|tiff?|bmp|hei[cf])$/.test(found.type);
    if (!element.firstChild) fill(element, h("span.sheet", {}, icon(picture ? "picture" : "file"), h("span", {}, found.type || "")));
    const ready = found.pages && found.jobs?.process && found.state !== "unsupported";
    wanted = ready ? found.jobs.process : "";
    if (seen) look();
  }
  return { element, show };
}
