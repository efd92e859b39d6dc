// Sorting, filters, and the dialog with the runs behind a number. Strings from the data are only inserted as text nodes.
// A classic script: pages opened from disk can use neither modules nor fetch.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const DASH = "–";
  const dialog = document.getElementById("entry");

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function built(made, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
    return made;
  }
  const element = (name, attributes = {}, ...children) => built(document.createElement(name), attributes, children);
  const drawn = (name, attributes, ...children) => built(document.createElementNS(SVG, name), attributes, children);

  // Wrap the content of a cell in a button.
  function pressable(cell, action) {
    const button = element("button", { type: "button" });
    button.append(...cell.childNodes);
    button.addEventListener("click", action);
    cell.append(button);
    return button;
  }

  // --- Sorting ---

  function sort(header) {
    const numeric = header.classList.contains("number");
    const was = header.getAttribute("aria-sort");
    const down = was ? was === "ascending" : numeric;
    const body = header.closest("table").tBodies[0];
    const text = (row) => row.cells[header.cellIndex].textContent.trim().replace(DASH, "");
    const compare = (a, b) => (numeric ? parseFloat(a) - parseFloat(b) : a.localeCompare(b, "en", { numeric: true }));
    const missing = (row) => text(row) === ""; // comes last in either direction
    const rows = [...body.rows];
    rows.sort((a, b) => missing(a) - missing(b) || (down ? -1 : 1) * compare(text(a), text(b)));
    body.append(...rows);
    for (const cell of header.parentElement.cells) cell.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    settle(header.closest("table"));
  }

  // --- Keyboard: one tab stop per table, arrow keys move between its numbers (roving tabindex) ---

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

  const bodyButtons = (table) => all("tbody button", table);

  function stop(table, button) {
    for (const other of bodyButtons(table)) other.tabIndex = other === button ? 0 : -1;
  }

  // After sorting and filtering, the tab stop must be a visible button.
  function settle(table) {
    const seen = bodyButtons(table).filter((button) => !button.closest("tr").hidden);
    if (seen.length && !seen.some((button) => button.tabIndex === 0)) stop(table, seen[0]);
  }

  function move(event) {
    const step = MOVES[event.key];
    const cell = event.target.closest("tbody td, tbody th");
    if (!step || !cell || event.target.tagName !== "BUTTON") return;
    const rows = all("tbody tr", cell.closest("table")).filter((row) => !row.hidden);
    let [y, x] = [rows.indexOf(cell.parentElement), cell.cellIndex];
    let next = null;
    do {
      y += step[0];
      x += step[1];
      next = rows[y]?.cells[x];
    } while (next && !next.querySelector("button"));
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  }

  // --- The dialog with the runs behind a number ---

  function facts(pairs) {
    const list = element("dl");
    for (const [title, text] of pairs.filter(([, text]) => text)) list.append(element("dt", {}, title), element("dd", {}, text));
    return list;
  }

  function scrolling(label, table) {
    return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
  }

  // Columns of a table of runs: name -> text for a run and its score.
  const COLUMNS = {
    Seed: (run) => run.seed,
    Score: (run, score) => (run.status === "finished" ? score?.toFixed(2) : [run.status, run.reason].filter(Boolean).join(": ")),
    Run: (run) => (run.file ? element("a", { href: run.file }, run.id) : run.id),
    Steps: (run) => run.steps,
    "Best step": (run) => run.best_step,
    Seconds: (run) => run.seconds,
    Scored: (run) => run.date?.slice(0, 16).replace("T", " "),
  };

  function runsTable(side) {
    const runs = side.runs.map((number) => data.runs[number]);
    const columns = Object.entries(COLUMNS)
      .map(([name, textOf]) => [name, runs.map((run, index) => textOf(run, side.scores[index]))])
      .filter(([, texts]) => texts.some((text) => text !== undefined));
    const head = element("tr", {}, ...columns.map(([name]) => element("th", { scope: "col" }, name)));
    const rows = runs.map((_, index) =>
      element("tr", {}, ...columns.map(([, texts]) => element("td", {}, texts[index] ?? DASH))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    return [element("h3", {}, side.name), scrolling(side.name, table), commands(side)];
  }

  // The shell commands that make the runs of a side: the first alone, and all of them.
  function commands(side) {
    const ids = side.runs.map((number) => data.runs[number].id);
    const targets = ids.map((id) => data.commands.scores + id + ".json").join(" ");
    const texts = [["Command for one run", `${data.commands.run} ${ids[0]}`]];
    if (ids.length > 1) texts.push(["For all seeds", `${data.commands.workflow} ${targets}`]);
    return facts(texts.map(([title, text]) => [title, element("code", {}, text)]));
  }

  const COLOURS = ["#3a8fd0", "#d55e00", "#009e73", "#cc79a7", "#b08a00", "#808890"]; // seen on white and on black
  const DASHES = ["none", "5 3", "1.5 2.5"];
  const look = (index) => ({ stroke: COLOURS[index % 6], "stroke-dasharray": DASHES[Math.floor(index / 6) % 3] });

  // One quantity over the steps, for several runs.
  function chart(column, title, runs) {
    const lines = runs.map((run) =>
      (run.curve[column] ?? []).map((y, index) => [run.curve.step[index], y]).filter(([, y]) => y !== null));
    const [xs, ys] = [0, 1].map((axis) => lines.flat().map((point) => point[axis]));
    if (!xs.length) return null;
    const [x0, x1, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const across = (x) => ((280 * (x - x0)) / (x1 - x0 || 1)).toFixed(1);
    const up = (y) => (120 - (120 * (y - low)) / (high - low || 1)).toFixed(1);
    const polylines = lines.map((line, index) =>
      drawn("polyline", { ...look(index), points: line.map(([x, y]) => `${across(x)},${up(y)}`).join(" ") }));
    const text = (x, y, anchor, number) =>
      drawn("text", { x, y, "text-anchor": anchor }, String(Number(number.toPrecision(4))));
    const levels = [...new Set([low, (low + high) / 2, high])].map((y) => text(-6, Number(up(y)) + 4, "end", y));
    const steps = [...new Set([x0, Math.round((x0 + x1) / 2), x1])].map((x) => text(across(x), 136, "middle", x));
    const axes = drawn("path", { d: "M0 0V120H280" });
    const name = drawn("text", { x: 140, y: 150, "text-anchor": "middle" }, "step");
    const label = `${title}: from ${low.toPrecision(4)} to ${high.toPrecision(4)}, steps ${x0} to ${x1}`;
    const svg = drawn("svg", { viewBox: "-48 -6 346 160", role: "img", "aria-label": label }, axes, ...polylines, ...levels, ...steps, name);
    return element("figure", {}, element("figcaption", {}, title), svg);
  }

  function curves(runs) {
    const key = runs.map((run, index) => {
      const line = drawn("polyline", { ...look(index), points: "0,5 30,5" });
      const mark = drawn("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, line);
      return element("li", {}, mark, `seed ${run.seed ?? DASH}, ${run.setting}`);
    });
    const charts = data.curve.map(([name, title]) => chart(name, title, runs)).filter(Boolean);
    const parts = [element("ul", { class: "key" }, ...key), element("div", { class: "charts" }, ...charts)];
    return [element("h3", {}, "Training"), ...parts];
  }

  function origins(runs) {
    const groups = new Map();
    for (const run of runs) if (run.origin !== undefined) groups.set(run.origin, [...(groups.get(run.origin) ?? []), run]);
    return [...groups].flatMap(([number, members]) => {
      const title = groups.size > 1 ? `Provenance of ${members.length} runs` : "Provenance";
      return [element("h3", {}, title), facts(data.origins[number])];
    });
  }

  function open(number) {
    const entry = data.entries[number];
    const runs = [...new Set(entry.sides.flatMap((side) => side.runs))].map((index) => data.runs[index]);
    const trained = runs.filter((run) => run.curve);
    const where = []; // of a printed number
    if (entry.command) where.push(["Command for this row", element("code", {}, entry.command)]);
    if (entry.address) where.push(["Address", element("a", { href: `#${entry.address}` }, `#${entry.address}`)]);
    document.getElementById("entry-title").textContent = entry.title;
    document.getElementById("entry-body").replaceChildren(
      facts(entry.facts),
      facts(where),
      ...entry.sides.flatMap(runsTable),
      ...(trained.length ? curves(trained) : []),
      ...origins(runs));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  }

  // The number that the page's address names, in its table.
  function openAddressed() {
    const cell = document.getElementById(location.hash.slice(1));
    if (!cell?.dataset.entry) return;
    for (let part = cell; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    cell.scrollIntoView({ block: "center" });
    open(Number(cell.dataset.entry));
  }

  // --- Filters ---

  const count = (shown, among, noun) => `${shown === among ? "" : `${shown} of `}${among} ${noun}${among === 1 ? "" : "s"}`;

  // Of the entries of a form's tables, those that fit its fields: a field is a data attribute of the entry or around it.
  function filter(form, changed) {
    const { search, ...fields } = Object.fromEntries(new FormData(form));
    const words = search.trim().toLowerCase();
    const chosen = Object.entries(fields).filter(([, value]) => value);
    const fits = (entry) => chosen.every(([name, value]) => entry.closest(`[data-${name}]`).dataset[name] === value);
    const filtered = Boolean(chosen.length || words);
    let [shown, among] = [0, 0];
    for (const section of all(form.dataset.of)) {
      let [seen, of] = [0, 0];
      for (const row of all("tbody tr", section)) {
        const entries = all("[data-entry]", row);
        const fitting = entries.filter(fits);
        for (const entry of entries) entry.classList.toggle("other", !fitting.includes(entry));
        row.hidden = !fitting.length || !row.cells[0].textContent.toLowerCase().includes(words);
        seen += row.hidden ? 0 : fitting.length;
        of += entries.length;
      }
      for (const text of all("[data-count]", section)) text.textContent = count(seen, of, form.dataset.noun);
      section.hidden = filtered && !seen;
      if (changed && filtered && seen) section.open = true;
      shown += seen;
      among += of;
      settle(section.querySelector("table"));
    }
    form.querySelector("[role=status]").textContent = count(shown, among, form.dataset.noun);
  }

  // The tables of the chosen paper; choosing a paper takes back a table of another one.
  function offerTables(form) {
    const { source, table } = form.elements;
    for (const group of all("optgroup", table)) group.hidden = Boolean(source.value && group.dataset.source !== source.value);
    if (table.selectedOptions[0].parentElement.hidden) table.value = "";
  }

  // --- Start ---

  for (const cell of all("[data-entry]")) pressable(cell, () => open(Number(cell.dataset.entry)));
  for (const header of all(".sortable thead th")) pressable(header, () => sort(header));
  for (const table of all("table")) {
    const first = bodyButtons(table)[0];
    if (!first) continue;
    stop(table, first);
    table.addEventListener("keydown", move);
    table.addEventListener("focusin", (event) => {
      if (event.target.closest("tbody") && event.target.tagName === "BUTTON") stop(table, event.target);
    });
  }
  for (const form of all("form.filter")) {
    form.hidden = false;
    form.addEventListener("input", () => {
      if (form.elements.table) offerTables(form);
      filter(form, true);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    filter(form, false);
  }
  for (const hint of all(".scripted")) hint.hidden = false;
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // a click on the backdrop
  window.addEventListener("hashchange", openAddressed);
  openAddressed();
})();
