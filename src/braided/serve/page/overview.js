// The table of all models, which is there when there are several; it can be sorted, and opens and closes their cards.
const MOST_OPEN = 6;
const opened = new Map();
const quarantined = new Map();
const sorted = {by: 0, down: false};
const usual = model => model.plain_guesses[0];
const COLUMNS = [
  {head: "model", value: model => model.name, text: model => model.name},
  {head: "error, last records", value: model => model.window_error, text: model => error(model.window_error, model)},
  {head: "majority or mean", value: model => usual(model).window_error, text: model => error(usual(model).window_error, model)},
  {head: "error, since the start", value: model => model.error, text: model => error(model.error, model), rare: true},
  {head: "records", value: model => model.records_before + model.records, text: model => grouped(model.records_before + model.records)},
  {head: "records/s", value: model => model.records_per_second, text: model => grouped(model.records_per_second), rare: true},
  {head: "state", value: state, text: state},
];
function state(model) { return model.trouble ? "not learning" : model.alarm ? "error jumped" : model.resets ? "resets" : "ok"; }

COLUMNS.forEach((column, place) => {
  const head = make("th", column.rare ? {class: "rare"} : {}, make("button", {class: "plain", sort: column.head, onclick: () => {
    sorted.down = sorted.by === place ? !sorted.down : false;
    sorted.by = place;
    arrange();
  }}, column.head));
  if (!place) byId("overview").querySelector("thead").append(make("tr", {}));
  byId("overview").querySelector("thead tr").append(head);
});

// What is not known goes to the end, whichever way it is sorted.
function order(a, b) {
  const {value} = COLUMNS[sorted.by], one = value(a), other = value(b);
  if (one === null || other === null) return (one === null) - (other === null);
  const least = one < other ? -1 : one > other ? 1 : a.name < b.name ? -1 : 1;
  return sorted.down ? -least : least;
}

const rows = new Map();
function overviewRow(model) {
  let row = rows.get(model.name);
  if (!row) {
    const name = make("button", {class: "plain", open: model.name, onclick: () => { opened.set(model.name, !isOpen(model.name)); arrange(); }});
    row = make("tr", {row: model.name}, make("td", {}, name), ...COLUMNS.slice(1).map(column => make("td", column.rare ? {class: "rare"} : {})));
    rows.set(model.name, row);
  }
  COLUMNS.forEach((column, place) => {
    const cell = place ? row.children[place] : row.querySelector("button"), text = column.text(model);
    if (cell.textContent !== text) cell.textContent = text;
  });
  row.lastChild.classList.toggle("wrong", state(model) !== "ok");
  row.querySelector("button").setAttribute("aria-expanded", String(isOpen(model.name)));
  return row;
}

// Of many models no card is open until it is asked for.
function isOpen(name) { return opened.get(name) ?? cards.size <= MOST_OPEN; }

// Moves only what is not where it belongs: what is being clicked must stay in its place.
function place(parent, nodes) {
  for (const node of [...parent.children]) if (!nodes.includes(node)) node.remove();
  nodes.forEach((node, at) => { if (parent.children[at] !== node) parent.insertBefore(node, parent.children[at] ?? null); });
}

function arrange() {
  const models = [...cards.values()].map(card => card.model).sort(order);
  byId("overview").hidden = models.length < 2;
  [...byId("overview").querySelectorAll("th")].forEach((head, at) => at === sorted.by
    ? head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
  place(byId("overview").querySelector("tbody"), models.map(overviewRow));
  const open = models.filter(model => isOpen(model.name)).map(model => cards.get(model.name).node);
  place(byId("models"), [...quarantined.values(), ...open]);
  // A card knows how wide it is once it is in the page.
  for (const card of cards.values()) if (card.node.isConnected && card.width !== chartWidth(card)) showChart(card);
}
addEventListener("resize", arrange);
