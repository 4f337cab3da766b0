// A model's card. Its parts are made once, so that what is clicked is still there; what they hold is made anew.
const cards = new Map();

function newCard(name) {
  const card = {model: null, kind: "window", pointed: null, parts: {}};
  const part = (key, node) => card.parts[key] = node;
  const link = (text, rest, act) => {
    const node = make("a", {action: text, onclick: event => act(name, event)}, text);
    node.href = address(name, rest);
    return node;
  };
  const kind = key => part(key, make("button", {class: "plain", kind: key, onclick: () => { card.kind = key; show(card.model); }}));
  card.node = make("article", {model: name},
    make("header", {}, make("h2", {}, name), part("about", make("span", {class: "soft"})), make("nav", {},
      link("download", "/checkpoint", download), link("inspect", "", inspect),
      part("explain", make("button", {class: "plain", action: "explain", onclick: () => explain(card.model)}, "explain")))),
    part("notes", make("div", {})), part("figures", make("div", {class: "figures"})),
    make("div", {class: "kinds"}, make("h3", {}, "Error"), kind("window"), kind("start")),
    part("chart", make("div", {class: "chart"})), part("reading", make("div", {class: "reading"})), part("rest", make("div", {})));
  card.parts.chart.addEventListener("pointermove", event => {
    const box = card.parts.chart.getBoundingClientRect();
    card.pointed = (event.clientX - box.left) / box.width;
    showChart(card);
  });
  card.parts.chart.addEventListener("pointerleave", () => { card.pointed = null; showChart(card); });
  return card;
}

function figure(kind, value, text, ...beside) {
  return make("div", {class: "figure " + kind}, make("b", {}, value), make("span", {}, text), ...beside.map(words => make("span", {}, words)));
}

function figures(model) {
  const beside = field => model.plain_guesses.map(guess => `${guess.name} ${error(guess[field], model)}`);
  const before = model.records_before ? [`${grouped(model.records_before)} before it came here`] : [];
  const what = regression(model) ? "off by" : "wrong";
  return [figure("lead", error(model.window_error, model), `${what} in the last ${grouped(model.window)}`, ...beside("window_error")),
    figure("", error(model.error, model), `${what} since the start`, ...beside("error")),
    figure("", grouped(model.records_before + model.records), "records", ...before),
    figure("", grouped(model.records_per_second), "records/s")];
}

function notes(model) {
  const found = [];
  if (model.resets) found.push(make("p", {class: "soft", resets: model.resets}, model.resets === 1 ? "1 learner was reset" : `learners were reset ${model.resets} times`));
  if (model.alarm) found.push(make("p", {class: "trouble", alarm: model.name}, "Alarm: " + model.alarm));
  if (model.trouble) found.push(make("p", {class: "trouble"}, "Not learning: " + model.trouble));
  const better = model.plain_guesses.filter(guess => guess.window_error !== null && guess.window_error <= model.window_error);
  if (model.records >= 200 && better.length) found.push(make("p", {class: "trouble", plain: better.length},
    `In the last ${grouped(model.window)}, no better than ${better.map(guess => guess.name).join(" and ")}.`));
  return found;
}

function chartWidth(card) { return Math.max(260, Math.min((card.node.clientWidth || 580) - 36, 700)); }

function showChart(card) {
  const {model, parts} = card;
  const full = model.window_curve.rows.length > 1;
  const kind = full ? card.kind : "start";
  const rows = kind === "window" ? model.window_curve.rows : model.curve;
  parts.window.textContent = `last ${grouped(model.window_curve.window)} records`;
  parts.window.hidden = !full;
  parts.start.textContent = "since the start";
  for (const key of ["window", "start"]) parts[key].setAttribute("aria-pressed", String(key === kind));
  const width = card.width = chartWidth(card);
  parts.chart.replaceChildren(chart(model, rows, width, card.pointed));
  parts.reading.textContent = reading(model, rows, width, card.pointed);
}

function show(model) {
  let card = cards.get(model.name);
  if (!card) cards.set(model.name, card = newCard(model.name));
  card.model = model;
  const {parts} = card;
  const keys = model.keys == null ? "" : `${grouped(model.keys)} keys, `;
  parts.about.textContent = `${model.task}, ${keys}${model.features} features` + (regression(model) ? "" : `, ${model.classes} classes`);
  parts.explain.hidden = model.keys != null;  // answers of a fleet are not explained
  parts.notes.replaceChildren(...notes(model));
  parts.figures.replaceChildren(...figures(model));
  showChart(card);
  const scrolled = card.node.querySelector(".strip")?.scrollTop ?? 0;
  const rest = [learners(model)];
  if (model.per_class.length) {
    const more = model.classes > model.per_class.length ? `, the ${model.per_class.length} most frequent of ${model.classes}` : "";
    rest.push(make("h3", {}, `Classes${more}`), perClass(model));
  }
  if (model.strip.length) {
    const more = model.features > model.strip.length ? `, the ${model.strip.length} least of ${model.features}` : ", the least first";
    rest.push(make("h3", {}, `Features available${more}`), strip(model));
  }
  if (model.columns.length) rest.push(make("h3", {}, "Columns of raw records"), columns(model));
  if (model.recent.length) rest.push(make("h3", {}, "Latest predictions"), recent(model));
  parts.rest.replaceChildren(...rest);
  if (scrolled) card.node.querySelector(".strip").scrollTop = scrolled;
}
