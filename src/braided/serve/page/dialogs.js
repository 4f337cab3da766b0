// What can be asked of a model beside its figures: its file, everything that is known of it, and why it answers as it does.
const address = (name, rest = "") => `models/${encodeURIComponent(name)}${rest}`;
function asked(path, options = {}) {
  const headers = {...options.headers, ...(token ? {Authorization: "Bearer " + token} : {})};
  return fetch(path, {...options, headers, cache: "no-store"});
}
// Where nobody answers, that is the answer.
async function answered(path, options) {
  try { return await asked(path, options); } catch (reason) { return new Response(reason.message, {status: 503}); }
}
async function problem(answer) {
  const text = await answer.text();
  try { return JSON.parse(text).detail ?? text; } catch { return text; }
}

function openDialog(title, ...body) {
  byId("dialog").querySelector("h2").textContent = title;
  byId("dialog").querySelector("div").replaceChildren(...body);
  if (!byId("dialog").open) byId("dialog").showModal();
}
byId("dialog").querySelector("button").addEventListener("click", () => byId("dialog").close());

// A link cannot send a token, so the file is fetched and then handed to the browser.
async function download(name, event) {
  event.preventDefault();
  const answer = await answered(address(name, "/checkpoint"));
  if (!answer.ok) return openDialog(`Download of ${name}`, make("p", {class: "trouble"}, await problem(answer)));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name + ".braided";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function inspect(name, event) {
  event.preventDefault();
  const answer = await answered(address(name));
  const told = answer.ok ? make("pre", {}, JSON.stringify(await answer.json(), null, 2)) : make("p", {class: "trouble"}, await problem(answer));
  openDialog(`All that is known of ${name}`, told);
}

function explain(model) {
  const values = model.columns.length
    ? model.columns.filter(column => "example" in column).map(column => [column.name, column.example])
    : model.strip.map(([name]) => [name, 0]);
  const record = make("textarea", {});
  record.setAttribute("aria-label", "a record");
  record.value = JSON.stringify({x: Object.fromEntries(values.slice(0, 12))}, null, 1);
  const answer = make("div", {answer: model.name});
  const button = make("button", {onclick: async () => {
    const found = await answered(address(model.name, "/explain"), {method: "POST", body: record.value, headers: {"Content-Type": "application/json"}});
    answer.replaceChildren(...(found.ok ? explained(await found.json(), model) : [make("p", {class: "trouble"}, await problem(found))]));
  }}, "Explain");
  openDialog(`Why ${model.name} answers as it does`, make("p", {class: "soft"}, "A record, with the values that it has:"), record, button, answer);
}

function explained(found, model) {
  const said = regression(model) ? labelled(found.value) : `${labelled(found.label)} with ${share(found.probability)}`;
  const place = regression(model) ? 0 : found.classes.indexOf(found.label);
  const table = make("table", {table: "effects"}, heads("feature", regression(model) ? "adds to the value" : "adds to the probability"));
  for (const effect of found.effects) {
    const adds = effect.adds[place] ?? null;
    const text = adds === null ? "–" : (adds >= 0 ? "+" : "−") + (regression(model) ? Number(Math.abs(adds).toPrecision(3)) : share(Math.abs(adds)));
    table.append(make("tr", {}, make("td", {class: "long"}, effect.feature), make("td", {}, text)));
  }
  return [make("p", {}, "The answer is ", make("b", {}, said), ". What each feature adds to it, compared with its usual values:"), table];
}
