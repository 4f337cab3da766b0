// Of the plain guesses: what is usual, and what was last.
const DASHES = ["6 4", "2 3"];
const MARGIN = {left: 46, right: 8, top: 20, bottom: 34}, HEIGHT = 220;

// Where values lie: on a logarithmic scale, since a learner that is wrong half the time and a sum that is wrong in one of a
// hundred both want to be seen. The first records are all errors: they would press everything else to the floor.
function scales(rows, width, before) {
  const first = rows[0][0], last = rows[rows.length - 1][0];
  const settled = rows.slice(Math.min(Math.floor(rows.length / 10), rows.length - 1));
  const values = settled.flatMap(row => row.slice(1)).filter(value => value !== null && value > 0);
  const most = values.length ? Math.max(...values) * 1.1 : 1, least = values.length ? Math.min(...values) / 1.1 : 0.1;
  const wide = width - MARGIN.left - MARGIN.right, high = HEIGHT - MARGIN.top - MARGIN.bottom;
  return {first: before + first, last: before + last, least, most,
    x: n => MARGIN.left + (last > first ? (n - before - first) / (last - first) : 1) * wide,
    y: v => MARGIN.top + Math.log(most / Math.min(Math.max(v, least), most)) / Math.log(most / least) * high};
}

function axes(svg, scale, width, model) {
  let lowest = HEIGHT;
  for (let power = Math.floor(Math.log10(scale.least)); power <= Math.log10(scale.most); power++) {
    for (const digit of [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8]) {
      const tick = digit * 10 ** power, at = scale.y(tick);
      if (tick < scale.least || tick > scale.most || at > lowest - 26) continue;
      lowest = at;
      svg.append(drawn("line", {x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at, stroke: "var(--line)"}));
      const text = regression(model) ? String(Number(tick.toPrecision(2))) : Number((100 * tick).toPrecision(2)) + "%";
      svg.append(drawn("text", {x: MARGIN.left - 6, y: at + 4, "text-anchor": "end"}, text));
    }
  }
  const floor = HEIGHT - MARGIN.bottom, span = scale.last - scale.first;
  const rough = Math.max(span, 1) / (width > 420 ? 5 : 3), power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max([1, 2, 5, 10].find(digit => digit * power >= rough) * power, 1);
  for (let tick = Math.ceil(scale.first / step) * step; tick <= scale.last; tick += step) {
    const at = scale.x(tick);
    svg.append(drawn("line", {x1: at, x2: at, y1: floor, y2: floor + 4, stroke: "var(--soft)"}));
    const anchor = at > width - 30 ? "end" : at < MARGIN.left + 12 ? "start" : "middle";
    svg.append(drawn("text", {x: at, y: floor + 15, "text-anchor": anchor, "data-tick": tick}, compact(tick)));
  }
  svg.append(drawn("line", {x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor, stroke: "var(--soft)"}));
  svg.append(drawn("text", {x: (width + MARGIN.left) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, "records"));
  svg.append(drawn("text", {x: 2, y: 10}, regression(model) ? "absolute error" : "share of wrong answers"));
}

// Where the error jumped, and until when it stood out.
function alarms(svg, scale, model) {
  for (const [raised, cleared] of model.alarm_marks) {
    const from = model.records_before + raised, until = cleared === null ? scale.last : model.records_before + cleared;
    if (until < scale.first) continue;
    const at = scale.x(Math.max(from, scale.first)), end = scale.x(Math.min(until, scale.last));
    const mark = drawn("g", {"data-mark": raised});
    mark.append(drawn("title", {}, `the error jumped at record ${grouped(from)}` +
      (cleared === null ? "" : `, and was usual again at ${grouped(until)}`)));
    mark.append(drawn("rect", {x: at, y: MARGIN.top, width: Math.max(end - at, 1), height: HEIGHT - MARGIN.top - MARGIN.bottom,
      fill: "var(--bad)", "fill-opacity": 0.09}));
    mark.append(drawn("line", {x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, stroke: "var(--bad)", "stroke-dasharray": "4 3"}));
    mark.append(drawn("path", {d: `M${at - 5} ${MARGIN.top}h10l-5 8z`, fill: "var(--bad)"}));
    svg.append(mark);
  }
}

// Names of the lines, in the order of a row's values.
function lines(model) {
  return ["all together", ...model.learners.map(row => row.name + " alone"), ...model.plain_guesses.map(row => row.name)];
}

// `pointed` is where the pointer is, as a share of the width; null if it is elsewhere.
function chart(model, rows, width, pointed) {
  const svg = drawn("svg", {viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "error over records"});
  if (!rows.length) return svg;
  const before = model.records_before, scale = scales(rows, width, before);
  axes(svg, scale, width, model);
  alarms(svg, scale, model);
  for (let line = rows[0].length - 2; line >= 0; line--) {
    const points = rows.filter(row => row[line + 1] !== null).map(row => `${scale.x(before + row[0]).toFixed(1)},${scale.y(row[line + 1]).toFixed(1)}`);
    const guess = line - 1 - model.learners.length;
    svg.append(drawn("polyline", {points: points.join(" "), fill: "none", "stroke-linejoin": "round",
      stroke: guess < 0 ? colour(line) : "var(--soft)", "stroke-dasharray": DASHES[guess] ?? "none",
      "stroke-width": line ? 1.4 : 2.6, "stroke-opacity": line ? 0.9 : 1}));
  }
  const row = pointed === null ? null : nearest(rows, scale, pointed * width, before);
  if (row) {
    const at = scale.x(before + row[0]);
    svg.append(drawn("line", {x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, stroke: "var(--soft)", "stroke-width": 0.7}));
    if (row[1] !== null) svg.append(drawn("circle", {cx: at, cy: scale.y(row[1]), r: 3.5, fill: colour(0)}));
  }
  return svg;
}

function nearest(rows, scale, at, before) {
  return rows.reduce((best, row) => Math.abs(scale.x(before + row[0]) - at) < Math.abs(scale.x(before + best[0]) - at) ? row : best);
}

// What the lines say where the pointer is; of learners only the best.
function reading(model, rows, width, pointed) {
  if (pointed === null || !rows.length) return "";
  const row = nearest(rows, scales(rows, width, model.records_before), pointed * width, model.records_before);
  const names = lines(model), n = model.learners.length;
  const own = names.map((name, i) => [name, row[i + 1]]).slice(1, n + 1).filter(([, value]) => value !== null).sort((a, b) => a[1] - b[1]).slice(0, 1);
  const told = [[names[0], row[1]], ...own, ...names.map((name, i) => [name, row[i + 1]]).slice(n + 1)];
  return `record ${grouped(model.records_before + row[0])}: ` + told.map(([name, value]) => `${name} ${error(value, model)}`).join(", ");
}

// What a line looks like in the chart.
function key(stroke, dashes = "none") {
  const svg = drawn("svg", {viewBox: "0 0 14 4", class: "key", "aria-hidden": "true"});
  svg.append(drawn("line", {x1: 0, x2: 14, y1: 2, y2: 2, stroke, "stroke-width": 4, "stroke-dasharray": dashes}));
  return svg;
}
