// The cluster as a picture: tasks on an ellipse, lines as wide as what passes between them.  The table beside it says the same.

const NS = "http://www.w3.org/2000/svg";
const MOST = 24;

const shape = (name, attributes, text) => {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
};

export const drawMap = (svg, tasks, traffic) => {
  svg.toggleAttribute("hidden", tasks.length < 2 || tasks.length > MOST);
  const places = new Map(tasks.map((task, n) => {
    const angle = 2 * Math.PI * n / tasks.length - Math.PI / 2;
    return [task.name, [160 + 120 * Math.cos(angle), 112 + 82 * Math.sin(angle)]];
  }));
  const lines = traffic.filter((each) => each.sent + each.received > 0).map((each) => {
    const [from, to] = [places.get(each.from), places.get(each.to)];
    if (!from || !to) return null;
    const width = Math.min(10, 1 + Math.log10(1 + (each.sent + each.received) / 1024) * 1.5);
    return shape("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], "stroke-width": width });
  }).filter(Boolean);
  const nodes = tasks.flatMap((task) => {
    const [x, y] = places.get(task.name);
    return [shape("circle", { cx: x, cy: y, r: 12, "data-state": task.state }), shape("text", { x, y: y + 26 }, task.name)];
  });
  svg.replaceChildren(...lines, ...nodes);
};
