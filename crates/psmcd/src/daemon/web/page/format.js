// Quantities for people, as `psmc status` writes them.
"use strict";

function rate(mbps) {
  if (mbps === undefined || mbps === null || Number.isNaN(mbps)) return "–";
  if (mbps === 0) return "0";
  if (mbps < 0.9995) return `${(mbps * 1000).toFixed(0)} k`;
  return mbps < 999.95 ? `${mbps.toFixed(1)} M` : `${(mbps / 1000).toFixed(2)} G`;
}

function bits(mbps) {
  const text = rate(mbps);
  return text === "–" || text === "0" ? text : `${text}bit/s`;
}

function milliseconds(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return "–";
  return `${ms.toFixed(ms < 10 ? 2 : 1)} ms`;
}

function percent(share) {
  return share === undefined || share === null || Number.isNaN(share) ? "–" : `${share.toFixed(1)} %`;
}

function bytes(number) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (number >= size) return `${(number / size).toFixed(1)} ${unit}`;
  }
  return `${number} B`;
}

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${minutes} min ${whole % 60} s`;
  return whole < 86400 ? `${hours} h ${minutes} min` : `${days} d ${hours} h`;
}

const CLOCK = new Intl.DateTimeFormat([], { timeStyle: "medium", hourCycle: "h23" });

function clock(ms) {
  return CLOCK.format(ms);
}
