// A traced step by device: a bar a node, in as many lanes as ran at once.  The table below it has the longest.
import { element, took } from "./format.js";

const NS = "http://www.w3.org/2000/svg";
const LANE = 14;
const HEAD = 18;

const kindOf = (op) =>
  op === "RecvTensor" ? "move" : /(Enqueue|Dequeue|Take|Barrier|Stage|Lock|IteratorGetNext)/.test(op) ? "wait" : "compute";

const shape = (name, attributes, text) => {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};

const draw = (step, zoom) => {
  const width = 900 * zoom;
  const scale = width / Math.max(step.took_us, 1);
  let y = 0;
  const parts = [];
  for (const device of step.devices) {
    parts.push(shape("text", { x: 4, y: y + 13 }, device.device));
    y += HEAD;
    for (const [name, op, start, length, lane] of device.spans) {
      const bar = shape("rect", {
        x: start * scale, y: y + lane * LANE, width: Math.max(length * scale, 0.7), height: LANE - 2, class: `kind-${kindOf(op)}`,
      });
      bar.append(shape("title", {}, `${op} ${name}: ${took(length / 1e6)}`));
      parts.push(bar);
    }
    y += device.lanes * LANE + 6;
    parts.push(shape("line", { x1: 0, x2: width, y1: y - 3, y2: y - 3 }));
  }
  const svg = shape("svg", { width, height: y, viewBox: `0 0 ${width} ${y}`, role: "img" });
  svg.setAttribute("aria-label", `Timeline of step ${step.name}, ${took(step.took_us / 1e6)}; the table below has its longest nodes`);
  svg.append(...parts);
  return svg;
};

const longest = (step) => {
  const spans = step.devices.flatMap((device) => device.spans.map((span) => [device.device, ...span]));
  spans.sort((a, b) => b[4] - a[4]);
  const body = element("tbody", {}, ...spans.slice(0, 12).map(([device, name, op, start, length]) => element("tr", {},
    element("th", { scope: "row" }, name), element("td", {}, op), element("td", {}, device),
    element("td", { class: "number" }, took(start / 1e6)), element("td", { class: "number" }, took(length / 1e6)))));
  const head = element("tr", {}, ...["node", "op", "device"].map((each) => element("th", { scope: "col" }, each)),
    element("th", { scope: "col", class: "number" }, "begins after"), element("th", { scope: "col", class: "number" }, "takes"));
  const table = element("table", {}, element("caption", {}, "The longest nodes"), element("thead", {}, head), body);
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The longest nodes" }, table);
};

export const drawTimeline = (place, trace) => {
  place.replaceChildren();
  const step = trace.steps[trace.steps.length - 1];
  if (!step) return;
  let zoom = 1;
  const frame = element("div", { class: "timeline", tabindex: "0", role: "region", "aria-label": "Timeline by device" });
  const redraw = () => frame.replaceChildren(draw(step, zoom));
  const button = (text, change) => {
    const made = element("button", { type: "button" }, text);
    made.addEventListener("click", () => { zoom = Math.min(64, Math.max(1, change(zoom))); redraw(); });
    return made;
  };
  const legend = element("p", { class: "legend" }, ...[["compute", "computing"], ["wait", "queues and waits"], ["move", "values on their way"]].map(
    ([kind, text]) => element("span", {}, element("i", { class: `swatch kind-${kind}` }), text)));
  const buttons = element("p", {}, button("Zoom in", (z) => z * 2), " ", button("Zoom out", (z) => z / 2), " ", button("Whole step", () => 1));
  redraw();
  place.append(element("h3", {}, `The last step that ends with ${step.name}: ${took(step.took_us / 1e6)}`), legend, buttons, frame, longest(step));
};
