// Sorting, filters, and the dialog with the runs behind a number. Strings from the data are only inserted as text nodes.
// A classic script: pages opened from disk can use neither modules nor fetch.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const DASH = "–";

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children.map((child) => (typeof child === "number" ? String(child) : child)));
    return made;
  }

  function drawn(name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

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
    const rows = [...cell.closest("tbody").rows].filter((row) => !row.hidden);
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

  const two = (value) => (value == null ? DASH : value.toFixed(2));

  function facts(pairs) {
    const list = element("dl");
    for (const [title, text] of pairs) list.append(element("dt", {}, title), element("dd", {}, text));
    return list;
  }

  function scrolling(label, table) {
    return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
  }

  const minute = (date) => date.slice(0, 16).replace("T", " ");

  // Columns of a table of runs: name -> text for a run and its score.
  const COLUMNS = {
    Seed: (run) => run.seed,
    Score: (run, score) => (run.status === "finished" ? two(score) : [run.status, run.reason].filter(Boolean).join(": ")),
    Run: (run) => (run.file ? element("a", { href: run.file }, run.id) : run.id),
    Steps: (run) => run.steps,
    "Best step": (run) => run.best_step,
    Seconds: (run) => run.seconds,
    Scored: (run) => run.date && minute(run.date),
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

  const look = (index) => `curve-${index % 6} dash-${Math.floor(index / 6) % 3}`;

  // One quantity over the steps, for several runs.
  function chart(name, title, runs) {
    const [width, height, left, bottom, top] = [280, 130, 40, 16, 8];
    const points = runs.map((run) =>
      (run.curve[name] ?? []).map((value, index) => [run.curve.step[index], value]).filter(([, value]) => value !== null));
    const flat = points.flat();
    if (!flat.length) return null;
    const [xs, ys] = [flat.map(([x]) => x), flat.map(([, y]) => y)];
    const [x0, x1, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const across = (x) => left + ((width - left - 6) * (x - x0)) / (x1 - x0 || 1);
    const up = (y) => height - bottom - ((height - bottom - top) * (y - low)) / (high - low || 1);
    const label = `${title}: from ${low.toPrecision(4)} to ${high.toPrecision(4)}, steps ${x0} to ${x1}`;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    svg.append(
      drawn("line", { class: "axis", x1: left, x2: width, y1: height - bottom, y2: height - bottom }),
      drawn("line", { class: "axis", x1: left, x2: left, y1: 0, y2: height - bottom }),
      drawn("text", { x: left - 4, y: up(high) + 4, "text-anchor": "end" }, high.toPrecision(4)),
      drawn("text", { x: left, y: height - 3 }, String(x0)),
      drawn("text", { x: width, y: height - 3, "text-anchor": "end" }, `step ${x1}`));
    if (low !== high) svg.append(drawn("text", { x: left - 4, y: up(low), "text-anchor": "end" }, low.toPrecision(4)));
    points.forEach((line, index) => {
      const path = line.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
      svg.append(drawn("polyline", { class: look(index), points: path }));
    });
    return element("figure", {}, element("figcaption", {}, title), svg);
  }

  function curves(runs) {
    const charts = data.curve.map(([name, title]) => chart(name, title, runs)).filter(Boolean);
    const key = element("ul", { class: "key" });
    runs.forEach((run, index) => {
      const mark = drawn("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" });
      mark.append(drawn("polyline", { class: look(index), points: "0,5 30,5", "stroke-width": 2 }));
      key.append(element("li", {}, mark, `seed ${run.seed ?? DASH}, ${run.setting}`));
    });
    return [element("h3", {}, "Training"), key, element("div", { class: "charts" }, ...charts)];
  }

  function origins(runs) {
    const groups = new Map();
    for (const run of runs) if (run.origin !== undefined) groups.set(run.origin, [...(groups.get(run.origin) ?? []), run]);
    return [...groups].flatMap(([number, members]) => {
      const title = groups.size > 1 ? `Provenance of ${members.length} runs` : "Provenance";
      return [element("h3", {}, title), facts(data.origins[number])];
    });
  }

  // The command that runs a printed row, and the address of the number.
  function place(entry) {
    const pairs = [];
    if (entry.command) pairs.push(["Command for this row", element("code", {}, entry.command)]);
    if (entry.address) pairs.push(["Address", element("a", { href: `#${entry.address}` }, `#${entry.address}`)]);
    return facts(pairs);
  }

  function open(number) {
    const entry = data.entries[number];
    const runs = [...new Set(entry.sides.flatMap((side) => side.runs))].map((index) => data.runs[index]);
    const trained = runs.filter((run) => run.curve);
    document.getElementById("entry-title").textContent = entry.title;
    document.getElementById("entry-body").replaceChildren(
      facts(entry.facts),
      place(entry),
      ...entry.sides.flatMap(runsTable),
      ...(trained.length ? curves(trained) : []),
      ...origins(runs));
    if (!document.getElementById("entry").open) document.getElementById("entry").showModal();
    document.getElementById("entry").scrollTop = 0;
  }

  // The number that the page's address names, in its table.
  function openAddressed() {
    const cell = document.getElementById(location.hash.slice(1));
    if (!cell?.dataset.entry) return;
    cell.closest("details").open = true;
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
  const dialog = document.getElementById("entry");
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // a click on the backdrop
  window.addEventListener("hashchange", openAddressed);
  openAddressed();
})();
