// Commands are copied into terminals, which do not know where this page is.
for (const place of document.querySelectorAll("[data-here]")) place.textContent = new URL(".", location.href).href;

let token = sessionStorage.getItem("braided-token");

function handle(kind, data) {
  if (kind === "model") show(data);
  if (kind === "models") {
    for (const name of cards.keys()) if (!data.names.includes(name)) for (const map of [cards, rows, opened]) map.delete(name);
    quarantined.clear();
    for (const [name, reason] of Object.entries(data.quarantined)) quarantined.set(name, make("article", {model: name},
      make("header", {}, make("h2", {}, name)), make("p", {class: "trouble"}, "Quarantined: " + reason)));
    byId("empty").hidden = quarantined.size > 0 || data.names.length > 0;
  }
}

function connection(kind, text) {
  byId("state").className = kind;
  if (byId("state").textContent !== text) byId("state").textContent = text;
}

// EventSource cannot send a token, so the stream is read by hand.
async function listen() {
  const answer = await asked("events");
  if (answer.status === 401) { ask(); return false; }
  if (!answer.ok) throw new Error(await problem(answer));
  connection("on", "live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) throw new Error("the service has stopped");
    const blocks = (held + value).split("\n\n");
    held = blocks.pop();
    for (const block of blocks) {
      const found = block.match(/^event: (\w+)\ndata: (.*)$/);
      if (found) handle(found[1], JSON.parse(found[2]));
    }
    arrange();
  }
}

function ask() {
  connection("off", "a token is needed");
  sessionStorage.removeItem("braided-token");
  byId("ask").hidden = false;
  byId("token").focus();
}
byId("ask").addEventListener("submit", event => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  sessionStorage.setItem("braided-token", token);
  byId("ask").hidden = true;
  run();
});

async function run() {
  for (;;) {
    try {
      if (await listen() === false) return;
    } catch (reason) {
      connection("off", `not connected (${reason.message}), trying again`);
      await new Promise(resolve => setTimeout(resolve, 1000));
    }
  }
}
run();
