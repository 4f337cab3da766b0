const SVG = "http://www.w3.org/2000/svg";
const byId = id => document.getElementById(id);

// Everything that comes from the service is set as text, never as markup.
function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") node.className = value; else if (key === "title") node.title = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value); else node.dataset[key] = value;
  }
  node.append(...children.map(child => child instanceof Node ? child : String(child)));
  return node;
}
function drawn(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
const grouped = number => Math.round(number).toLocaleString("en");
const compact = number => number >= 1e6 ? Number((number / 1e6).toFixed(6)) + "M" : number >= 1e4 ? Number((number / 1e3).toFixed(3)) + "k" : grouped(number);
const colour = place => `var(--c${place ? 1 + (place - 1) % 8 : 0})`;
const regression = model => model.task === "regression";
function share(value) { return value === null ? "–" : (100 * value).toFixed(value < 0.1 ? 2 : 1) + "%"; }
function error(value, model) {
  if (value === null) return "–";
  return regression(model) ? Number(value.toPrecision(3)).toString() : share(value);
}
function labelled(value) { return value === null || value === undefined ? "–" : typeof value === "number" ? Number(value.toPrecision(5)) : String(value); }
function heads(...texts) { return make("tr", {}, ...texts.map(text => make("th", {}, text))); }
