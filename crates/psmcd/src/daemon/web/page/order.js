// Changes paths. The daemon wants to be shown the token for that, which the page was opened with: no cookie, for browsers show those
// to others as well.
"use strict";

const KEPT = "psmc token";

// The token in the address; undefined if there is none.
function tokenInAddress() {
  const text = /[?&]token=([^&]+)/.exec(location.search)?.[1];
  try {
    return text && decodeURIComponent(text);
  } catch {
    return text;
  }
}

// What the token is, kept for the next time; the browser may be told to keep nothing.
const token = {
  known: tokenInAddress(),
  get() {
    try {
      this.known ??= localStorage.getItem(KEPT) ?? undefined;
      if (this.known !== undefined) localStorage.setItem(KEPT, this.known);
    } catch { /* It is known as long as the page is open. */ }
    return this.known;
  },
  forget() {
    this.known = undefined;
    try {
      localStorage.removeItem(KEPT);
    } catch { /* There is none. */ }
  },
};

// What is to be ordered, by path: of a path only the latest.
const wanted = new Map();
let isOrdering = false;
// How often orders have begun and ended: what was asked for before may not know of the last of them.
let turns = 0;

// Says what becomes of orders.
function tell(text, isWrong = false) {
  write(at("told"), text);
  mark(at("told"), "class", isWrong ? "bad" : "note");
}

// Orders something of a path, behind what was ordered before.
async function order(peer, path, change) {
  const key = JSON.stringify([peer, path]);
  wanted.set(key, { ...wanted.get(key), peer, path, ...change });
  if (isOrdering) return;
  isOrdering = true;
  turns++;
  mark(at("paths"), "aria-busy", "true");
  while (wanted.size > 0) {
    const [first, wish] = wanted.entries().next().value;
    wanted.delete(first);
    await send(wish);
  }
  isOrdering = false;
  turns++;
  mark(at("paths"), "aria-busy", "false");
  lookAgain();
}

async function send(wish) {
  const what = inWords(wish);
  tell(`${what} …`);
  try {
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token.get()}` };
    await ask("api/path", { method: "POST", headers, body: JSON.stringify(wish) });
    tell(`${what}: done`);
  } catch (error) {
    if (error.isFinal) token.forget();
    tell(`${what}: ${error.message}`, true);
  }
}

function inWords({ path, weight, state }) {
  return [weight === undefined ? [] : `weight of ${path}: ${weight}`, state ? `${path}: ${state}` : []].flat().join(", ");
}

// What a row has to change its path by.
function makeControls(row) {
  const weight = element("input");
  Object.assign(weight, { type: "number", min: 1, max: 1000, step: 1, inputMode: "numeric" });
  const toggle = element("button");
  toggle.type = "button";
  const label = element("label", "", element("span", "", "weight"), weight);
  const cell = element("td", "orders", label, toggle);
  row.controls = { cell, weight, toggle };
  // A row may become that of another path while somebody writes.
  weight.addEventListener("input", () => row.edited ??= row.path);
  weight.addEventListener("change", () => {
    const [of, now, value] = [row.edited ?? row.path, row.path, weight.valueAsNumber];
    row.edited = undefined;
    if (Number.isNaN(value) || of.peer !== now.peer || of.name !== now.name) weight.value = now.weight;
    else order(now.peer, now.name, { weight: value });
  });
  weight.addEventListener("blur", () => row.edited = undefined);
  weight.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    row.edited = undefined;
    weight.value = row.path.weight;
  });
  toggle.addEventListener("click", () => {
    order(row.path.peer, row.path.name, { state: row.path.state === "standby" ? "active" : "standby" });
  });
  return cell;
}

function showControls(row, path) {
  const { cell, weight, toggle } = row.controls;
  row.path = { peer: known.peer, name: path.name, weight: path.weight, state: path.state };
  cell.hidden = !known.mayOrder;
  if (cell.hidden) return;
  if (!row.edited && !isOrdering && weight.value !== String(path.weight)) weight.value = path.weight;
  mark(weight, "aria-label", `weight of ${path.name}`);
  const isStandby = path.state === "standby";
  write(toggle, isStandby ? "activate" : "standby");
  mark(toggle, "aria-label", isStandby ? `activate ${path.name}` : `standby for ${path.name}`);
}

// Whether this page may order anything, and if not, what to do about it.
function showAccess(isTaken) {
  known.mayOrder = isTaken && token.get() !== undefined;
  at("change").hidden = !known.mayOrder;
  const why = isTaken ? "To change paths here, open this page once with ?token= and the token behind its address." :
    "Read only. With `orders = true` and a `token_file` in [web], paths can be changed here; `psmc path set` always changes them.";
  write(at("access"), known.mayOrder ? "" : why);
}
