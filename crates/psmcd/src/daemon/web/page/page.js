// Asks the daemon once a second while somebody looks, and shows what it says.
"use strict";

const INTERVAL = 1000;     // ms between two questions
const PATIENCE = 8000;     // ms until a question counts as not answered
const MINUTE = 60;         // answers in a sparkline
const MAX_EVENTS = 100;    // events that are listed

const at = (id) => document.getElementById(id);
const plots = [
  new Plot("Up", "up_mbps", bits),
  new Plot("Down", "down_mbps", bits),
  new Plot("Round-trip time", "rtt_ms", milliseconds),
  new Plot("Loss", "loss_pct", percent),
];
const QUANTITIES = plots.map((plot) => plot.key);
const pastOf = (name, size) => ({ name, rings: Object.fromEntries(QUANTITIES.map((key) => [key, new Ring(size)])) });
const NO_PAST = pastOf("", 2);

// What is known: of the daemon, of the chosen peer, and of its paths by their keys, which `order` has as the rows are.
const known = { run: undefined, peer: undefined, events: [], eventCount: 0, nextSample: 0, interval: 5, mayOrder: false, order: [], minutes: new Map(), pasts: new Map() };

const keyOf = (name, isOwn) => `${isOwn ? "own" : "peer"} ${name}`;
const keyOfPath = (path) => keyOf(path.name, path.uplink !== undefined);

// Forgets what belongs to another daemon or another peer.
function forget() {
  known.minutes.clear();
  known.pasts.clear();
  known.nextSample = 0;
  point(undefined);
}

// Shows an answer.
function update(state) {
  if (state.run !== known.run) {
    [known.run, known.events, known.eventCount] = [state.run, [], 0];
    forget();
  }
  const peer = state.peer ?? undefined;
  if (peer?.name !== known.peer) {
    known.peer = peer?.name;
    forget();
  }
  write(at("site"), state.site.name);
  write(at("about"), `up ${age(state.site.uptime_s)}, psmcd ${state.site.version}`);
  document.title = `${state.site.name} – psmc`;
  lines(at("notices"), (state.site.notices ?? []).map((notice) => `attention: ${notice}`));
  showPeers(state);
  showAccess(state.orders);
  showPeer(peer, state.rates);
  showEvents(state);
}

function lines(list, texts) {
  const nodes = fit(list, texts.length, () => element("li"));
  texts.forEach((text, index) => write(nodes[index], text));
}

function showPeers(state) {
  const nodes = fit(at("peers"), state.peers.length, makePeer);
  state.peers.forEach((peer, index) => {
    const [button, [name, status, rates]] = [nodes[index].firstChild, nodes[index].firstChild.children];
    button.dataset.name = peer.name;
    mark(button, "aria-pressed", String(peer.name === known.peer));
    write(name, peer.name);
    write(status, peer.state);
    mark(status, "class", peer.state);
    write(rates, peer.traffic ? `up ${bits(peer.traffic.up_mbps)}, down ${bits(peer.traffic.down_mbps)}` : "");
  });
  write(at("more"), state.more_peers ? `and ${state.more_peers} more: put #NAME behind the address of this page` : "");
}

function makePeer() {
  const button = element("button", "", element("b"), " ", element("span"), element("small"));
  button.type = "button";
  button.addEventListener("click", () => {
    location.hash = button.dataset.name;
  });
  // The text between name and state is no element: `children` has three.
  return element("li", "", button);
}

function showPeer(peer, rates) {
  write(at("peer"), peer ? `peer ${peer.name}` : "no peers");
  write(at("headline"), peer ? headline(peer) : "");
  lines(at("waiting"), (peer?.waiting ?? []).map(waiting));
  showPaths(peer?.paths ?? [], rates?.paths ?? {});
  showClasses((peer?.classes ?? []).filter(isUsed), rates?.classes ?? {});
  const repair = Object.entries(rates?.repair ?? {}).filter(([, rate]) => rate > 0);
  write(at("repair"), repair.map(([name, rate]) => `${rate.toFixed(1)} ${name.replaceAll("_", " ")}`).join(", ") || "nothing");
}

function headline(peer) {
  const { connected, since_s, last_error } = peer.control;
  const heard = peer.state === "down" && peer.heard_s !== undefined ? `, nothing heard for ${age(peer.heard_s)}` : "";
  const why = !connected && last_error ? ` (${last_error})` : "";
  return `${peer.state}${heard}, control ${connected ? "" : "not "}connected for ${age(since_s)}${why}, scheduler ${peer.scheduler}`;
}

function waiting({ name, why, since_s }) {
  return name ? `path ${name}: cannot be opened for ${age(since_s)}: ${why}` : `no paths yet for ${age(since_s)}: ${why}`;
}

function isUsed({ tx_packets, queued_packets, drops }) {
  return tx_packets + queued_packets + Object.values(drops).reduce((sum, count) => sum + count, 0) > 0;
}

function showPaths(paths, rates) {
  known.order = paths.map(keyOfPath);
  keepOnly(known.minutes, new Set(known.order));
  const rows = fit(at("rows"), paths.length, makeRow);
  const rings = paths.map((path) => {
    const ring = entry(known.minutes, keyOfPath(path), () => new Ring(MINUTE));
    const traffic = rates[path.id];
    ring.push(traffic ? traffic.up_mbps + traffic.down_mbps : NaN);
    return ring;
  });
  const top = greatest(rings);
  paths.forEach((path, index) => showPath(rows[index], path, index, rates[path.id]));
  rings.forEach((ring, index) => rows[index].spark.draw(ring, top));
  showLegend(paths);
}

function showLegend(paths) {
  const nodes = fit(at("legend"), paths.length, () => element("li", "", element("span"), element("span")));
  paths.forEach((path, index) => {
    mark(nodes[index].firstChild, "class", `key ${series(index)}`);
    write(nodes[index].lastChild, path.name);
  });
}

function showPath(row, path, index, traffic) {
  const [name, state, up, down, rtt, loss, mtu, weight] = row.children;
  mark(row, "class", series(index));
  mark(row.key, "class", `key ${series(index)}`);
  write(row.name, path.name);
  write(row.where, `${path.interface ? `${path.interface} ` : ""}to ${[...(path.relays ?? []).map((relay) => `${relay} to`), path.remote ?? "?"].join(" ")}`);
  write(state.firstChild, path.state);
  mark(state.firstChild, "class", path.state);
  const why = path.why ?? path.relay_error;
  write(state.lastChild, `for ${age(path.since_s)}${why ? `: ${why}` : ""}`);
  write(up, rate(traffic?.up_mbps));
  write(down, rate(traffic?.down_mbps));
  write(rtt, milliseconds(path.rtt_ms));
  write(loss, percent(path.loss_pct));
  write(mtu, String(path.mtu));
  write(weight, String(path.weight));
  showControls(row, path);
}

function makeRow() {
  const row = element("tr");
  row.setAttribute("role", "row");
  [row.key, row.name, row.where, row.spark] = [element("span", "key"), element("span"), element("small"), new Spark()];
  const cells = [
    element("td", "", row.key, row.name, row.where),
    element("td", "", element("b"), element("small")),
    ...["up", "down", "RTT", "loss", "MTU", "weight"].map((name) => {
      const cell = element("td", "number");
      cell.dataset.name = name;
      return cell;
    }),
    makeControls(row),
    element("td", "", row.spark.node),
  ];
  cells.forEach((cell) => cell.setAttribute("role", "cell"));
  row.append(...cells);
  return row;
}

function showClasses(classes, rates) {
  const rows = fit(at("classes"), classes.length, () => {
    const row = element("tr", "", element("td"), element("td", "number"), element("td", "number"));
    row.setAttribute("role", "row");
    [...row.children].forEach((cell) => cell.setAttribute("role", "cell"));
    return row;
  });
  classes.forEach((of, index) => {
    const [name, packets, queue] = rows[index].children;
    write(name, of.name);
    write(packets, rates[of.name] === undefined ? "–" : rates[of.name].toFixed(0));
    write(queue, `${of.queued_packets} packets, ${bytes(of.queued_bytes)}`);
  });
}

// The latest event comes first.
function showEvents(state) {
  known.eventCount = state.event_count;
  if (!state.events.length && at("events").children.length === known.events.length) return;
  known.events = [...state.events.toReversed(), ...known.events].slice(0, MAX_EVENTS);
  const nodes = fit(at("events"), known.events.length, () => element("li", "", element("time"), element("span")));
  known.events.forEach(({ at: when, what }, index) => {
    const [time, text] = nodes[index].children;
    write(time, clock(when));
    mark(time, "datetime", new Date(when).toISOString());
    write(text, what);
  });
}

// Adds a part of the last hour, and draws it.
function addHistory(part) {
  known.interval = part.interval_s;
  keepOnly(known.pasts, new Set(part.paths.map((path) => keyOf(path.name, path.is_own))));
  for (const path of part.paths.slice(0, MAX_PATHS)) {
    const past = entry(known.pasts, keyOf(path.name, path.is_own), () => pastOf(path.name, SAMPLES));
    for (const key of QUANTITIES) path[key].forEach((value, index) => past.rings[key].put(part.first + index, value));
  }
  known.nextSample = part.first + part.count;
  drawPlots();
}

// Those that are shown have the colours of their rows; those that are gone, or are not known yet, are left out.
function shownPasts() {
  return known.order.map((key) => known.pasts.get(key) ?? NO_PAST);
}

function drawPlots() {
  const pasts = shownPasts();
  plots.forEach((plot) => plot.draw(pasts, known.nextSample));
}

// Reads out the values of a time, `place` samples after an hour ago.
function point(place) {
  plots.forEach((plot) => plot.point(place));
  if (place === undefined) {
    write(at("readout"), "Point at a plot for its values.");
    return;
  }
  const number = known.nextSample - SAMPLES + place;
  const ago = (SAMPLES - 1 - place) * known.interval;
  const values = shownPasts().filter((past) => past.name).map(({ name, rings }) =>
    `${name}: up ${bits(rings.up_mbps.get(number))}, down ${bits(rings.down_mbps.get(number))}, ` +
    `${milliseconds(rings.rtt_ms.get(number))}, loss ${percent(rings.loss_pct.get(number))}`);
  write(at("readout"), `${age(ago)} ago. ${values.join("; ")}`);
}

function entry(map, key, make) {
  if (!map.has(key)) map.set(key, make());
  return map.get(key);
}

function keepOnly(map, keys) {
  for (const key of map.keys()) if (!keys.has(key)) map.delete(key);
}

// What the daemon answers, nothing if it does what was ordered; an error says why it does not, and whether asking again is of no use.
async function ask(address, options = {}) {
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(new Error("psmcd is silent")), PATIENCE);
  try {
    const answer = await fetch(address, { ...options, cache: "no-store", signal: patience.signal });
    if (answer.status === 401) {
      throw Object.assign(new Error("the token is not accepted any more: open this page with ?token= again"), { isFinal: true });
    }
    if (!answer.ok) throw new Error((await answer.json()).error);
    return answer.status === 204 ? undefined : await answer.json();
  } finally {
    clearTimeout(timer);
  }
}

// Returns whether to ask again.
async function poll() {
  const wanted = encodeURIComponent(location.hash.slice(1));
  try {
    let state;
    let turn;
    do {
      turn = turns;
      state = await ask(`api/state?peer=${wanted}&events=${known.eventCount}`);
    } while (turn !== turns);
    update(state);
    while (known.peer !== undefined && known.nextSample < state.next_sample) {
      addHistory(await ask(`api/history?peer=${encodeURIComponent(known.peer)}&from=${known.nextSample}`));
    }
    silence(undefined);
    return true;
  } catch (error) {
    silence(error);
    return !error.isFinal;
  }
}

// Says since when there is no answer, and why.
function silence(error) {
  const node = at("silence");
  if (error && node.hidden) node.dataset.since = clock(Date.now());
  if (error) write(node, `no answer since ${node.dataset.since}: ${error.message}`);
  node.hidden = !error;
}

// Until the time is over, or the page is looked at again.
function pause() {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("order", done);
      document.removeEventListener("visibilitychange", done);
      removeEventListener("hashchange", done);
      resolve();
    };
    const timer = setTimeout(done, INTERVAL);
    document.addEventListener("visibilitychange", done);
    addEventListener("hashchange", done);
    addEventListener("order", done);
  });
}

// What was ordered is to be seen at once.
function lookAgain() {
  dispatchEvent(new Event("order"));
}

async function watch() {
  for (;;) {
    if (!document.hidden && !(await poll())) return;
    await pause();
  }
}

function followPointer(plot) {
  const place = (event) => {
    const { left, width } = plot.svg.getBoundingClientRect();
    return Math.max(0, Math.min(SAMPLES - 1, Math.round(((event.clientX - left) / width) * (SAMPLES - 1))));
  };
  let chosen = SAMPLES - 1;
  plot.svg.addEventListener("pointermove", (event) => point(chosen = place(event)));
  plot.svg.addEventListener("pointerleave", () => point(undefined));
  plot.svg.addEventListener("blur", () => point(undefined));
  plot.svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -12, ArrowRight: 12 }[event.key];
    if (step) point(chosen = Math.max(0, Math.min(SAMPLES - 1, chosen + step)));
  });
}

// The token has become a cookie, and is known where it is needed: it need not stand in the address.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
plots.forEach((plot) => {
  at("plots").append(plot.node);
  followPointer(plot);
});
watch();
