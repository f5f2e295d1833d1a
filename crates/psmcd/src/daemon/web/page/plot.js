// The past of paths, and how it is drawn. Everything has a fixed size, however long the page is open.
"use strict";

const SAMPLES = 720;       // of the last hour, as the daemon keeps them
const MAX_PATHS = 64;      // with a past: as many as a peer can have
const SVG = "http://www.w3.org/2000/svg";

// Where what belongs to a path is drawn in: its colour, and whether in dashes.
function series(index) {
  return `s${index % 8}${index % 16 < 8 ? "" : " dashed"}`;
}

// Writes a text or an attribute only where it differs: what stays is not laid out again.
function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// Gives `parent` so many children. Those that are there are used again.
function fit(parent, count, make) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(make());
  return parent.children;
}

function element(name, classes = "", ...children) {
  const node = document.createElement(name);
  if (classes) node.className = classes;
  node.append(...children);
  return node;
}

function drawing(name, classes = "") {
  const node = document.createElementNS(SVG, name);
  if (classes) node.setAttribute("class", classes);
  return node;
}

// The last numbers of a kind, in a ring: what was not measured is no number.
class Ring {
  constructor(size) {
    this.values = new Float32Array(size).fill(NaN);
    this.next = 0;
  }

  get size() { return this.values.length; }

  // Gives the number `index` its value; those that were passed over have none.
  put(index, value) {
    const from = Math.max(this.next, index - this.size + 1);
    for (let missed = from; missed < index; missed++) this.values[missed % this.size] = NaN;
    this.values[index % this.size] = value === null || value === undefined ? NaN : value;
    this.next = Math.max(this.next, index + 1);
  }

  get(index) {
    return index < 0 || index >= this.next || index < this.next - this.size ? NaN : this.values[index % this.size];
  }

  push(value) { this.put(this.next, value); }
}

function greatest(rings) {
  let top = 0;
  for (const ring of rings) for (const value of ring.values) if (value > top) top = value;
  return top;
}

// What a polyline is of the numbers before `next`, the last of them at the right. Where one is missing there is a gap.
function line(ring, next, top, width, height) {
  let text = "";
  let drawn = false;
  const step = width / (ring.size - 1);
  for (let place = 0; place < ring.size; place++) {
    const value = ring.get(next - ring.size + place);
    if (Number.isNaN(value)) {
      drawn = false;
      continue;
    }
    const y = height - (top > 0 ? value / top : 0) * (height - 2) - 1;
    text += `${drawn ? "L" : "M"}${(place * step).toFixed(1)} ${y.toFixed(1)}`;
    // A point alone is seen as well.
    if (!drawn && Number.isNaN(ring.get(next - ring.size + place + 1))) text += "h.5";
    drawn = true;
  }
  return text;
}

// A small drawing of one ring.
class Spark {
  constructor() {
    this.node = drawing("svg", "spark");
    this.node.setAttribute("viewBox", "0 0 120 24");
    this.node.setAttribute("preserveAspectRatio", "none");
    this.node.setAttribute("aria-hidden", "true");
    this.path = this.node.appendChild(drawing("path"));
  }

  draw(ring, top) { mark(this.path, "d", line(ring, ring.next, top, 120, 24)); }
}

// One quantity of all paths over the last hour.
class Plot {
  constructor(title, key, format) {
    [this.title, this.key, this.format] = [title, key, format];
    this.top = element("span");
    this.svg = drawing("svg", "plot");
    this.svg.setAttribute("viewBox", `0 0 ${SAMPLES} 100`);
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.svg.tabIndex = 0;
    for (const y of [1, 50]) this.svg.append(this.rule(0, y, SAMPLES, y));
    this.paths = this.svg.appendChild(drawing("g"));
    this.cursor = this.svg.appendChild(this.rule(0, 0, 0, 100, "cursor"));
    this.cursor.setAttribute("visibility", "hidden");
    const times = element("div", "times", element("span", "", "one hour ago"), element("span", "", "now"));
    this.node = element("figure", "", element("figcaption", "", element("b", "", title), this.top), this.svg, times);
  }

  rule(x1, y1, x2, y2, classes = "") {
    const rule = drawing("line", classes);
    for (const [name, value] of Object.entries({ x1, y1, x2, y2 })) rule.setAttribute(name, value);
    return rule;
  }

  // Draws the pasts of paths: their names and rings.
  draw(pasts, next) {
    const rings = pasts.map((past) => past.rings[this.key]);
    const top = greatest(rings);
    const nodes = fit(this.paths, rings.length, () => drawing("path"));
    rings.forEach((ring, index) => {
      mark(nodes[index], "class", series(index));
      mark(nodes[index], "d", line(ring, next, top, SAMPLES, 100));
    });
    write(this.top, `up to ${this.format(top)}`);
    const latest = pasts.map((past) => `${past.name} ${this.format(past.rings[this.key].get(next - 1))}`);
    mark(this.svg, "aria-label", `${this.title} over the last hour, up to ${this.format(top)}; now ${latest.join(", ")}`);
  }

  // Shows where the values are that are read out; nowhere if `place` is undefined.
  point(place) {
    mark(this.cursor, "visibility", place === undefined ? "hidden" : "visible");
    if (place === undefined) return;
    mark(this.cursor, "x1", String(place));
    mark(this.cursor, "x2", String(place));
  }
}
