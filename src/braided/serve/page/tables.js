function learners(model) {
  const failed = model.learners.some(one => one.skipped || one.resets);
  const table = make("table", {}, heads("", `last ${grouped(model.window)}`, "since the start", ...(failed ? ["skipped", "resets"] : [])));
  const row = (props, name, kind, mark, figures, ...failures) => table.append(make("tr", props,
    make("td", {class: kind}, mark, name), make("td", {}, error(figures.window_error, model)), make("td", {}, error(figures.error, model)),
    ...(failed ? [failures[0] ?? "", failures[1] ?? ""].map(cell => make("td", {}, cell)) : [])));
  row({learner: "all together"}, "all together", "", key(colour(0)), model);
  model.plain_guesses.forEach((guess, place) => row({guess: guess.name, class: "soft"}, guess.name, "words", key("var(--soft)", DASHES[place]), guess));
  model.learners.forEach((one, place) => row({learner: one.name}, one.name + " alone", "part", key(colour(place + 1)), one, one.skipped,
    make("span", one.resets ? {class: "reset"} : {}, one.resets)));
  return table;
}

function perClass(model) {
  const table = make("table", {table: "classes"}, heads("class", "records", "found", `of the last ${grouped(model.window)}`, "found"));
  for (const one of model.per_class) {
    table.append(make("tr", {label: String(one.label)}, make("td", {class: "long"}, labelled(one.label)), make("td", {}, grouped(one.support)),
      make("td", {}, share(one.recall)), make("td", {}, grouped(one.window_support)), make("td", {}, share(one.window_recall))));
  }
  return table;
}

function strip(model) {
  const box = make("div", {class: "strip"});
  for (const [name, shares] of model.strip) {
    const cells = make("div", {class: "cells"});
    for (const part of shares) {
      const cell = make("i", {title: `${name}: ${Math.round(100 * part)}%`});
      cell.style.background = `rgba(var(--cell), ${(0.06 + 0.94 * part).toFixed(2)})`;
      cells.append(cell);
    }
    box.append(make("span", {title: name}, name), cells, make("span", {}, Math.round(100 * (shares[shares.length - 1] ?? 0)) + "%"));
  }
  return box;
}

function recent(model) {
  const number = regression(model);
  const table = make("table", {table: "latest"}, heads("record", "predicted", number ? "off by" : "sure", "label"));
  for (const item of model.recent) {
    const right = number ? null : item.predicted === item.label;
    const beside = number ? (item.predicted === null ? "–" : Number(Math.abs(item.predicted - item.label).toPrecision(3))) :
      item.probability === null ? "–" : Math.round(100 * item.probability) + "%";
    table.append(make("tr", {}, make("td", {}, grouped(model.records_before + item.record)),
      make("td", {class: "long" + (right === null ? "" : right ? " right" : " wrong")}, (right === null ? "" : right ? "✓ " : "✗ ") + labelled(item.predicted)),
      make("td", {}, beside), make("td", {class: "long"}, labelled(item.label))));
  }
  return table;
}

function columns(model) {
  const table = make("table", {}, heads("column", "read as"));
  for (const column of model.columns) {
    const values = column.values === undefined ? "" : ` with ${column.values} ${column.values === 1 ? "value" : "values"}`;
    table.append(make("tr", {column: column.name}, make("td", {class: "long"}, column.name), make("td", {}, column.read_as + values)));
  }
  return table;
}
