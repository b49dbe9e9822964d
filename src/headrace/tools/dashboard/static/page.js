// The page: what the server's events say, shown.  All text is set as text; nothing that comes is taken for HTML.
import { Chart } from "./charts.js";
import { at, bytes, cells, count, duration, element, none, rate, rows, thousands, took } from "./format.js";
import { drawMap } from "./map.js";
import { drawTimeline } from "./timeline.js";

const MOST_POINTS = 300;
const MOST_EVENTS = 200;
const byId = (id) => document.getElementById(id);

const past = { points: [], events: [] };
let latest = null;
let chosenQueue = null;

const rateChart = new Chart(byId("rate-chart"), [
  { label: "steps", colour: "--one" }, { label: "parts of steps", colour: "--two" }], rate);
const latencyChart = new Chart(byId("latency-chart"), [
  { label: "half", colour: "--one" }, { label: "95 %", colour: "--two" }, { label: "99 %", colour: "--three" }], took);
const fillChart = new Chart(byId("fill-chart"), [{ label: "elements", colour: "--one" }], (value) => value.toFixed(0));

const figure = (name, text) => element("div", {}, element("dt", {}, name), element("dd", {}, text));
const perSecond = (found) => (found ? rate(found.per_s) : "");

// -- cluster ------------------------------------------------------------------------------------

const showTasks = (view) => {
  rows(byId("tasks"), view.tasks, (task) => task.name,
    (task) => element("li", {}, element("h3", {}, element("span", {}, task.name), element("span", { class: "state" })),
      element("p", { class: "dim" }), element("dl", { class: "figures" })),
    (card, task) => {
      card.dataset.state = task.state;
      const state = card.querySelector(".state");
      state.dataset.state = task.state;
      state.textContent = task.state;
      card.querySelector("p").textContent = task.why_silent ?? `${task.address} · pid ${task.pid} on ${task.host}`;
      const shown = task.state !== "up" ? [] : [
        ["memory", bytes(task.memory_bytes)],
        ["processors", task.cpu === null ? "" : task.cpu.toFixed(2)],
        ["parts of steps/s", perSecond(task.parts)],
        ["under way", String(task.steps_under_way)],
        ["variables", bytes(task.variable_bytes)],
        ["up", duration(task.up_s)],
      ];
      for (const each of task.devices ?? []) {
        if (task.state === "up") shown.push([each.name, `${bytes(each.held_bytes)} of ${bytes(each.limit_bytes)}`]);
      }
      if (task.restarts) shown.push(["restarts seen", String(task.restarts)]);
      card.querySelector("dl").replaceChildren(...shown.map(([name, text]) => figure(name, text)));
    });
  const traffic = view.tasks.flatMap((task) => Object.entries(task.passed).map(
    ([to, [sent, received]]) => ({ from: task.name, to, sent, received })));
  rows(byId("traffic"), traffic, (each) => `${each.from} ${each.to}`,
    () => element("tr", {}, element("th", { scope: "row" }), element("td"), element("td", { class: "number" }), element("td", { class: "number" })),
    (row, each) => cells(row, [each.from, each.to, `${bytes(each.sent)}/s`, `${bytes(each.received)}/s`]));
  none(byId("traffic"), "nothing passes between tasks of different processes");
  drawMap(byId("map"), view.tasks, traffic);
};

// -- steps --------------------------------------------------------------------------------------

const showSteps = (view) => {
  const steps = view.steps;
  const blocked = view.counts.blocked;
  byId("pace").replaceChildren(
    figure("steps/s through masters", perSecond(steps)),
    figure("parts/s on tasks", rate(view.point.parts_per_s)),
    figure("half take at most", took(steps?.median_s)),
    figure("95 % at most", took(steps?.p95_s)),
    figure("99 % at most", took(steps?.p99_s)),
    figure("failed/s", steps ? rate(steps.failed_per_s) : ""),
    figure("waiting now", String(blocked)));
  const times = past.points.map((point) => point.at_s);
  const of = (name) => past.points.map((point) => point[name]);
  rateChart.show([times, of("steps_per_s"), of("parts_per_s")],
    `Steps a second over the last ${duration(times.length)}; now ${perSecond(steps) || "none"} through masters, ${rate(view.point.parts_per_s)} parts of steps on tasks`);
  latencyChart.show([times, of("median_s"), of("p95_s"), of("p99_s")],
    `How long steps take; now half of them at most ${took(steps?.median_s) || "unknown"}, 95 % at most ${took(steps?.p95_s) || "unknown"}`);
};

const showBlocked = (view) => {
  rows(byId("blocked-steps"), view.blocked, (step) => `${step.session} ${step.task} ${step.node} ${step.on}`,
    () => element("li", {}, element("strong"), " ", element("span"), element("span", { class: "cause" })),
    (item, step) => {
      const what = step.text.slice(step.text.indexOf(": ") + 2).split(". Likely cause: ")[0];
      cells(item, [`${duration(step.waited_s)} ${step.op} ${step.node}`, `${what}${step.built_at ? ` (built at ${step.built_at})` : ""}`, step.cause ? `→ ${step.cause}` : ""]);
    });
  none(byId("blocked-steps"), "no step waits");
};

// -- queues -------------------------------------------------------------------------------------

const waiting = (queue) => {
  const words = [[queue.puts, "put in"], [queue.takes, "take out"]].filter(([n]) => n).map(([n, what]) => `${n} to ${what}`);
  const nodes = queue.waiting.map((each) => each.node).filter(Boolean);
  return words.join(", ") + (nodes.length ? ` (${[...new Set(nodes)].join(", ")})` : "") + (queue.closed ? " closed" : "");
};

const showQueues = (view) => {
  rows(byId("queue-rows"), view.queues, (queue) => queue.key,
    (queue) => {
      const name = element("button", { type: "button", class: "link", "aria-pressed": "false", "aria-controls": "fill-figure" }, queue.name);
      name.addEventListener("click", () => { chosenQueue = queue.key; showQueues(latest); });
      const meter = element("meter", { min: 0, "aria-label": `fill of ${queue.name}` });
      return element("tr", {}, element("th", { scope: "row" }, name), element("td"), element("td", {}, meter),
        element("td", { class: "number" }), element("td", { class: "number" }), element("td", { class: "number" }), element("td"));
    },
    (row, queue) => {
      const limit = queue.capacity ? `/${queue.capacity}` : "";
      const aside = queue.set_aside ? `+${queue.set_aside}` : "";
      cells(row, [null, queue.task, null, `${queue.size}${aside}${limit}`, rate(queue.entered_per_s), rate(queue.left_per_s), waiting(queue)]);
      const meter = row.querySelector("meter");
      meter.hidden = !queue.capacity;
      meter.max = queue.capacity ?? 1;
      meter.value = queue.size + queue.set_aside;
      row.querySelector("button").setAttribute("aria-pressed", String(queue.key === chosenQueue));
    });
  none(byId("queue-rows"), "no queues");
  if (!view.queues.some((queue) => queue.key === chosenQueue)) chosenQueue = view.queues[0]?.key ?? null;
  byId("fill-figure").hidden = chosenQueue === null;
  if (chosenQueue === null) return;
  const queue = view.queues.find((each) => each.key === chosenQueue);
  byId("fill-name").textContent = `${queue.name} on ${queue.task}`;
  fillChart.show([past.points.map((point) => point.at_s), past.points.map((point) => point.fills[chosenQueue] ?? null)],
    `Elements in ${queue.name} over time; now ${queue.size + queue.set_aside}`);
};

// -- the rest -----------------------------------------------------------------------------------

const shapeOf = (shape) => (shape === null ? "unknown" : `[${shape.map((size) => size ?? "?").join(", ")}]`);

const showVariables = (view) => {
  const wanted = byId("variable-filter").value;
  const found = view.variables.filter((each) => each.name.includes(wanted));
  rows(byId("variable-rows"), found, (each) => `${each.task} ${each.container} ${each.session} ${each.name}`,
    (each) => element("tr", {}, element("th", { scope: "row" }, each.name), element("td"), element("td"), element("td"),
      element("td", { class: "number" }), element("td", { class: "number" }), element("td", { class: "number" })),
    (row, each) => cells(row, [null, each.task, each.dtype, shapeOf(each.shape), each.initialized ? bytes(each.bytes) : "uninitialized",
      thousands(each.updates), rate(each.updates_per_s)]));
  none(byId("variable-rows"), wanted ? "none of that name" : "no variables");
  const more = view.counts.variables - view.variables.length;
  const text = `${count(view.counts.variables, "variable")}, ${bytes(view.bytes)}${more > 0 ? `; ${view.variables.length} are listed, the largest and those that are updated the most` : ""}`;
  if (byId("variable-count").textContent !== text) byId("variable-count").textContent = text;
};

// Checkpoints as their tasks remember them, and the restarts that somebody has seen, the latest first.
const showCheckpoints = (view) => {
  const done = view.checkpoints.map((each) => ({
    ...each, key: `${each.task} ${each.number} ${each.prefix}`, failed: each.error !== null,
    text: each.error === null ? each.prefix : `${each.prefix}: ${each.error}`,
  }));
  const restarts = past.events.filter((event) => event.kind === "restarted").map((event) => ({
    at_s: event.at_s, kind: "restarted", task: event.task, key: `${event.task} ${event.at_s}`, failed: false, text: event.text,
  }));
  const ordered = [...done, ...restarts].sort((a, b) => b.at_s - a.at_s);
  rows(byId("checkpoint-rows"), ordered, (each) => each.key,
    (each) => element("tr", {}, element("td"),
      element("td", {}, element("time", { datetime: new Date(each.at_s * 1000).toISOString() }, at(each.at_s))),
      element("td"), element("th", { scope: "row" }),
      element("td", { class: "number" }), element("td", { class: "number" }), element("td", { class: "number" })),
    (row, each) => {
      row.toggleAttribute("data-failed", each.failed);
      const figures = each.kind === "restarted" ? ["", "", ""] : [String(each.tensors), bytes(each.bytes), took(each.took_s)];
      cells(row, [each.failed ? `not ${each.kind}` : each.kind, null, each.task, each.text, ...figures]);
    });
  none(byId("checkpoint-rows"), "no checkpoint was written or read of late, and no task restarted");
};

const showOthers = (view) => {
  const datasets = (each) => each.kind === "DataIterator";
  const ordered = [...view.others].sort((a, b) => datasets(b) - datasets(a));
  rows(byId("other-rows"), ordered, (each) => `${each.task} ${each.container} ${each.session} ${each.kind} ${each.name}`,
    (each) => element("li", {}, element("strong", {}, `${each.kind} ${each.name}`), " ", element("span", { class: "dim" }, `on ${each.task}`), " ", element("span")),
    (item, each) => {
      const state = item.lastElementChild;
      if (state.textContent !== each.state) state.textContent = each.state;
    });
  none(byId("other-rows"), "no datasets, readers, tables or accumulators");
};

const showSessions = (view) => {
  rows(byId("session-rows"), view.sessions, (each) => each.handle,
    (each) => element("tr", {}, element("th", { scope: "row" }, each.handle.slice(0, 8)), element("td"), element("td"),
      element("td", { class: "number" }), element("td", { class: "number" }), element("td", { class: "number" })),
    (row, each) => cells(row, [null, each.task, each.client ?? "does not say", duration(each.age_s), String(each.nodes), String(each.steps_under_way)]));
  none(byId("session-rows"), "no sessions");
};

const showEvents = () => {
  rows(byId("event-rows"), [...past.events].reverse(), (event) => `${event.at_s} ${event.text}`,
    (event) => element("li", {}, element("time", { datetime: new Date(event.at_s * 1000).toISOString() }, at(event.at_s)), " ",
      element("strong", {}, event.kind), " ", element("span", {}, event.text)),
    () => {});
  none(byId("event-rows"), "nothing has happened since somebody looks");
};

// -- trace --------------------------------------------------------------------------------------

const showTrace = (trace) => {
  byId("trace-report").hidden = false;
  byId("trace-report").textContent = trace.report.join("\n").trim();
  byId("trace-download").hidden = trace.traced === 0;
  byId("trace-state").textContent = `${count(trace.traced, "step")} traced`;
  drawTimeline(byId("timeline"), trace);
};

byId("trace-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  byId("trace-state").textContent = "tracing…";
  try {
    const steps = encodeURIComponent(byId("trace-steps").value);
    const reply = await fetch(`/trace.json?steps=${steps}`, { headers: { "X-Headrace": "1" } });
    if (reply.ok) showTrace(await reply.json());
    else byId("trace-state").textContent = await reply.text();
  } catch (error) {
    byId("trace-state").textContent = `no trace: ${error.message}`;
  } finally {
    button.disabled = false;
  }
});

const lastTrace = async () => {
  const reply = await fetch("/trace.json");
  if (reply.status === 200) showTrace(await reply.json());
};

byId("variable-filter").addEventListener("input", () => { if (latest) showVariables(latest); });

// -- the feed -----------------------------------------------------------------------------------

const connection = (state, text) => {
  byId("connection").dataset.state = state;
  if (byId("state").textContent !== text) byId("state").textContent = text;
};

const show = (view) => {
  latest = view;
  byId("target").textContent = view.target;
  document.title = `${view.counts.blocked ? `(${view.counts.blocked}) ` : ""}headrace ${view.target}`;
  const gone = view.tasks.filter((task) => task.state !== "up").length;
  connection("live", `live: ${count(view.tasks.length, "task")}${gone ? `, ${gone} not up` : ""}, ${count(view.counts.sessions, "session")}`);
  showTasks(view);
  showSteps(view);
  showBlocked(view);
  showQueues(view);
  showVariables(view);
  showCheckpoints(view);
  showOthers(view);
  showSessions(view);
  showEvents();
};

const source = new EventSource("/events");
source.addEventListener("past", (event) => Object.assign(past, JSON.parse(event.data)));
source.addEventListener("view", (event) => {
  const view = JSON.parse(event.data);
  const last = past.points[past.points.length - 1];
  if (!last || last.at_s < view.point.at_s) past.points.push(view.point);
  past.points.splice(0, past.points.length - MOST_POINTS);
  const known = new Set(past.events.map((each) => `${each.at_s} ${each.text}`));
  past.events.push(...view.events.filter((each) => !known.has(`${each.at_s} ${each.text}`)));
  past.events.splice(0, past.events.length - MOST_EVENTS);
  show(view);
});
source.addEventListener("lost", (event) => connection("lost", JSON.parse(event.data).why));
source.addEventListener("error", () => connection("lost", "the page's server does not answer; trying again"));
lastTrace();
