// Lines over time, by uPlot; colours are those of the page, and follow the system's from light to dark.
/* global uPlot */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = matchMedia("(prefers-color-scheme: dark)");

export class Chart {
  // series: [{label, colour: "--one"}]; text: how the values of its axis are written.
  constructor(place, series, text) {
    Object.assign(this, { place, series, text, plot: null, data: [[], ...series.map(() => [])] });
    new ResizeObserver(() => this.resize()).observe(place);
    dark.addEventListener("change", () => this.make());
  }

  make() {
    this.plot?.destroy();
    const line = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
    this.plot = new uPlot({
      width: Math.max(this.place.clientWidth, 100),
      height: 170,
      cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
      axes: [line, { ...line, size: 64, values: (_, ticks) => ticks.map(this.text) }],
      series: [{}, ...this.series.map((each) => ({
        label: each.label, stroke: colour(each.colour), width: 2, points: { show: false },
        value: (_, value) => (value === null ? "" : this.text(value)),
      }))],
    }, this.data, this.place);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: 170 });
  }

  // data: times in seconds, then a list for each series; words: what it shows, for who cannot see it.
  show(data, words) {
    this.data = data;
    this.place.setAttribute("aria-label", words);
    if (this.plot) this.plot.setData(data);
    else if (this.place.clientWidth) this.make();
  }
}
