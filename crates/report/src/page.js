"use strict";
(() => {
const all = (query, within = document) => [...within.querySelectorAll(query)];
const make = (name, kind, text) => Object.assign(document.createElement(name), { className: kind, textContent: text || "" });
const SIDE = 10000, HEIGHT = 1000;

// Charts whose level axis has equal steps; those with one label for it are read and zoomed together.
const charts = all(".plot[data-x]").map((plot) => {
  const [low, high, time] = plot.dataset.x.split(" ");
  const area = plot.querySelector(".area"), svg = area.querySelector("svg");
  const chart = { plot, area, svg, low: +low, high: +high, time, group: plot.querySelector(".xl").textContent, from: 0, to: 1, off: new Set() };
  const read = (place) => { const title = place.querySelector("title"), text = title.textContent; title.remove(); return text.split("\n"); };
  const held = svg.querySelector(".h"), strips = all(".h rect", svg), edges = strips.map((strip) => +strip.getAttribute("x"));
  chart.strips = strips.map((strip, at) => ({ x: edges[at], end: edges[at + 1] ?? +held.dataset.end, lines: read(strip) }));
  if (held) held.remove();
  chart.dots = all("path.d:has(title)", svg).map((dot) => ({ x: +dot.getAttribute("d").match(/\d+/)[0], lines: read(dot) }));
  chart.line = make("i", "at");
  chart.box = make("div", "read");
  area.append(chart.line, chart.box);
  chart.moved = all(".xs span, .lane b", plot).map((label) => ({ label, left: label.style.left, share: parseFloat(label.style.left) / 100 }));
  return chart;
});
const like = (chart) => charts.filter((it) => it.group === chart.group);
const show = (chart, value) => {
  if (!chart.time) return value.toLocaleString("en", { maximumFractionDigits: chart.to - chart.from < 0.1 ? 2 : 0 });
  if (chart.high < 120) return +value.toFixed(2) + " s";
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const hours = Math.floor(value / 3600), minutes = value / 60 % 60;
  return (hours ? hours + ":" + two(minutes) : Math.floor(minutes)) + ":" + two(value % 60);
};

// The values at one place of the axis.
function read(chart, value) {
  const share = (value - chart.low) / (chart.high - chart.low), x = share * SIDE;
  const on = (text) => ![...chart.off].some((name) => text.startsWith(name + " "));
  const strip = chart.strips.find((it) => it.x <= x && x < it.end);
  const reach = (chart.to - chart.from) * SIDE / 60, near = new Map();
  for (const dot of chart.dots) {
    const gap = Math.abs(dot.x - x), name = dot.lines[0].replace(/ \S+ at .*| [^ ]+ \S+ at .*/, "");
    if (gap <= reach && !(near.has(name) && near.get(name).gap <= gap)) near.set(name, { gap, text: dot.lines[0] });
  }
  const values = (strip ? strip.lines.slice(1) : []).concat([...near.values()].map((it) => it.text)).filter(on);
  const place = (share - chart.from) / (chart.to - chart.from);
  const seen = place >= 0 && place <= 1;
  chart.line.style.display = seen ? "block" : "none";
  chart.box.style.display = seen && values.length ? "block" : "none";
  chart.line.style.left = place * 100 + "%";
  chart.box.style.left = place < 0.5 ? place * 100 + "%" : "auto";
  chart.box.style.right = place < 0.5 ? "auto" : (1 - place) * 100 + "%";
  chart.box.replaceChildren(make("b", "", show(chart, value)), ...values.slice(0, 12).map((text) => make("div", "", text)));
}

const hide = (chart) => { chart.line.style.display = chart.box.style.display = "none"; };

// Draws one stretch of the axis, in shares of it.
function zoom(chart, from, to) {
  Object.assign(chart, { from, to });
  const whole = from === 0 && to === 1;
  hide(chart);
  chart.svg.setAttribute("viewBox", [from * SIDE, 0, (to - from) * SIDE, HEIGHT].join(" "));
  chart.svg.style.overflow = whole ? "" : "hidden";
  for (const { label, left, share } of chart.moved) {
    const at = (share - from) / (to - from), is_tick = label.parentNode.className === "xs";
    label.style.left = whole || !left ? left : at * 100 + "%";
    label.style.display = whole || (!is_tick && at >= 0 && at <= 1) ? "" : "none";
  }
  all(".xs .own", chart.plot).forEach((label) => label.remove());
  if (whole) return;
  const span = (to - from) * (chart.high - chart.low), first = chart.low + from * (chart.high - chart.low);
  const power = 10 ** Math.floor(Math.log10(span / 5));
  let steps = [1, 2, 5, 10].map((step) => step * power);
  if (chart.time && span > 50) steps = [10, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400];
  const step = steps.find((it) => it >= span / 6) || steps.at(-1);
  for (let tick = Math.ceil(first / step) * step; tick <= first + span; tick += step) {
    const label = make("span", tick > first + span * 0.97 ? "own e" : "own", show(chart, tick));
    label.style.left = (tick - first) / span * 100 + "%";
    chart.plot.querySelector(".xs").append(label);
  }
}

const back = make("button", "back", "");
back.type = "button";
back.hidden = true;
document.body.append(back);
function zoom_all(chart, low, high) {
  for (const other of like(chart)) {
    const share = (value) => Math.min(1, Math.max(0, (value - other.low) / (other.high - other.low)));
    if (low === null) zoom(other, 0, 1);
    else if (share(high) > share(low)) zoom(other, share(low), share(high));
  }
  back.hidden = charts.every((it) => it.from === 0 && it.to === 1);
  if (low !== null) back.textContent = show(chart, low) + " to " + show(chart, high) + ": show all";
}
const whole = () => charts.forEach((chart) => zoom_all(chart, null));
back.onclick = whole;
addEventListener("keydown", (event) => { if (event.key === "Escape") whole(); });

for (const chart of charts) {
  let begin = null;
  const at = (event) => {
    const box = chart.area.getBoundingClientRect();
    const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    return chart.low + (chart.from + share * (chart.to - chart.from)) * (chart.high - chart.low);
  };
  const sel = make("i", "sel");
  chart.area.append(sel);
  chart.area.onpointermove = (event) => {
    const value = at(event);
    like(chart).forEach((it) => read(it, value));
    if (begin === null) return;
    const place = (it) => ((it - chart.low) / (chart.high - chart.low) - chart.from) / (chart.to - chart.from) * 100;
    sel.style.left = place(Math.min(begin.value, value)) + "%";
    sel.style.width = Math.abs(place(value) - place(begin.value)) + "%";
  };
  chart.area.onpointerleave = () => like(chart).forEach(hide);
  chart.area.onpointerdown = (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    begin = { x: event.clientX, value: at(event) };
    chart.area.setPointerCapture(event.pointerId);
  };
  chart.area.onpointercancel = () => { begin = null; sel.style.width = 0; };
  chart.area.onpointerup = (event) => {
    const value = at(event), far = begin && Math.abs(event.clientX - begin.x) > 8;
    if (far) zoom_all(chart, Math.min(begin.value, value), Math.max(begin.value, value));
    chart.area.onpointercancel();
  };
  chart.area.ondblclick = whole;
}

// The legend switches series.
for (const figure of all("figure.chart")) {
  const chart = charts.find((it) => figure.contains(it.plot));
  all(".legend li", figure).forEach((entry, number) => {
    const drawn = all('g[data-l="' + number + '"]', figure);
    if (!drawn.length) return;
    Object.assign(entry, { tabIndex: 0, title: "show or hide" });
    entry.setAttribute("role", "switch");
    entry.setAttribute("aria-checked", "true");
    entry.onclick = () => {
      const off = entry.classList.toggle("off");
      entry.setAttribute("aria-checked", String(!off));
      drawn.forEach((it) => { it.style.display = off ? "none" : ""; });
      if (chart) chart.off[off ? "add" : "delete"](entry.textContent);
    };
    entry.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); entry.click(); } };
  });
}

// The page as Markdown: its words and tables, without its charts.
const words = (node) => [...node.childNodes].map((it) => {
  if (it.nodeName === "B") return "**" + it.textContent.trim() + "** ";
  return it.className === "to" ? "" : it.textContent;
}).join("").replace(/\s+/g, " ").replace(/ ([.,;:])/g, "$1").trim();
function markdown(node) {
  const inner = () => [...node.children].map(markdown).join("");
  const row = (cells) => "| " + cells.map((it) => it.textContent.replace(/\|/g, "\\|")).join(" | ") + " |\n";
  switch (node.nodeName) {
    case "H1": case "H2": case "H3": return "#".repeat(+node.nodeName[1]) + " " + words(node) + "\n\n";
    case "P": case "FOOTER": return words(node) + "\n\n";
    case "UL": case "OL": return node.className === "legend" ? "" : [...node.children].map((it) => "- " + words(it) + "\n").join("") + "\n";
    case "DL": return all("dt", node).map((it) => "- " + it.textContent + ": " + it.nextSibling.textContent + "\n").join("") + "\n";
    case "PRE": return "```\n" + node.textContent + "\n```\n\n";
    case "TABLE": {
      const [head, ...rows] = all("tr", node).map((it) => [...it.children]);
      return row(head) + "|" + head.map((it) => it.className.includes("f") ? "---:" : "---").join("|") + "|\n" + rows.map(row).join("") + "\n";
    }
    case "FIGURE": return all(".forest .fn, .bars .fn", node).filter((it) => it.textContent)
      .map((it) => "- " + it.textContent + ": " + it.nextSibling.nextSibling.textContent + "\n").join("") + "\n";
    case "MAIN": case "SECTION": case "DETAILS": case "SUMMARY": case "DIV": return inner();
    default: return "";
  }
}
const copy = make("button", "copy", "Copy as Markdown");
copy.type = "button";
copy.onclick = async () => {
  const text = markdown(document.querySelector("main")).replace(/\n{3,}/g, "\n\n");
  let done = true;
  try { await navigator.clipboard.writeText(text); } catch {
    const field = make("textarea", "", "");
    field.value = text;
    document.body.append(field);
    field.select();
    done = document.execCommand("copy");
    field.remove();
  }
  copy.textContent = done ? "Copied" : "The browser does not allow it";
  setTimeout(() => { copy.textContent = "Copy as Markdown"; }, 2000);
};
document.querySelector("h1").before(copy);

// A link to a folded section opens it.
const open = () => { const at = document.getElementById(decodeURIComponent(location.hash.slice(1))); if (at && at.nodeName === "DETAILS") at.open = true; };
addEventListener("hashchange", open);
open();
})();
