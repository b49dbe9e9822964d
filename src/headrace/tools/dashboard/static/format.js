// Numbers as people say them, and DOM elements in one call.

const scaled = (value, base, units) => {
  let n = 0;
  while (value >= base && n < units.length - 1) { value /= base; n += 1; }
  return `${value.toFixed(n && value < 100 ? 1 : 0)}${units[n]}`;
};

export const thousands = (count) => scaled(count, 1000, ["", "k", "M", "G"]);

export const bytes = (count) => scaled(count, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);

export const rate = (perSecond) =>
  perSecond === null || perSecond === undefined ? "" :
    perSecond < 10 ? perSecond.toFixed(1) : thousands(perSecond);

export const took = (seconds) => {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1e-3) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toFixed(seconds < 0.1 ? 1 : 0)} ms`;
  return duration(seconds);
};

export const duration = (seconds) => {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 48 * 3600) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(0)} d`;
};

export const at = (unixSeconds) => new Date(unixSeconds * 1000).toLocaleTimeString();

export const count = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

// element("td", {class: "number"}, "5"); text is text, never HTML.
export const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

// The children of `parent`, one for each item: made once for a key, then updated, so that focus stays where it is.
export const rows = (parent, items, key, make, update) => {
  const known = parent.known ?? (parent.known = new Map());
  const seen = new Set();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    if (seen.has(name)) continue;
    seen.add(name);
    let child = known.get(name);
    if (!child) { child = make(item); known.set(name, child); }
    update(child, item);
    if (child !== place) parent.insertBefore(child, place);
    else place = place.nextElementSibling;
  }
  for (const [name, child] of known) {
    if (!seen.has(name)) { child.remove(); known.delete(name); }
  }
};

// Sets the text of a row's cells, where it has changed.
export const cells = (row, texts) => texts.forEach((text, n) => {
  const cell = row.children[n];
  if (text !== null && cell.textContent !== text) cell.textContent = text;
});

export const none = (parent, text) => {
  if (parent.querySelector(":scope > :not(.none)")) { parent.querySelector(":scope > .none")?.remove(); return; }
  if (parent.querySelector(":scope > .none")) return;
  const inTable = parent.tagName === "TBODY";
  const columns = inTable ? parent.parentElement.querySelectorAll("thead th").length : 0;
  parent.append(inTable ? element("tr", { class: "none" }, element("td", { colspan: columns }, text)) : element("li", { class: "none" }, text));
};
