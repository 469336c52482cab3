// What every page does: sort tables, search them, enlarge pictures, choose a theme. `Page` is for a page's own script.
"use strict";

const Page = (() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const formatted = new Intl.NumberFormat("en");
  const collator = new Intl.Collator("en", { numeric: true });

  // Sorting: a click on a heading, numbers the largest first. Cells without a number come last either way.

  function sort(button) {
    const heading = button.closest("th");
    const numeric = heading.dataset.kind === "number";
    const [first, second] = numeric ? ["descending", "ascending"] : ["ascending", "descending"];
    const order = heading.getAttribute("aria-sort") === first ? second : first;
    for (const other of all("th[aria-sort]", heading.parentElement)) {
      other.setAttribute("aria-sort", other === heading ? order : "none");
    }
    const body = heading.closest("table").tBodies[0];
    const compare = numeric ? compareNumbers : collator.compare;
    const sign = order === "ascending" ? 1 : -1;
    const keyed = [...body.rows].map((row) => [key(row.cells[heading.cellIndex], numeric), row]);
    const known = keyed.filter(([value]) => !Number.isNaN(value));
    const unknown = keyed.filter(([value]) => Number.isNaN(value));
    known.sort(([a], [b]) => sign * compare(a, b));
    body.append(...[...known, ...unknown].map(([, row]) => row));
  }

  const compareNumbers = (a, b) => a - b;

  function key(cell, numeric) {
    return numeric ? Number.parseFloat(cell.dataset.value) : cell.textContent;
  }

  // Searching: rows that hold every word, in any case.

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  const matches = (text, wanted) => wanted.every((word) => text.includes(word));

  function count(output, shown, of) {
    output.textContent = `${formatted.format(shown)} of ${formatted.format(of)}`;
  }

  function search(input) {
    const wanted = words(input.value);
    const rows = [...byId(input.dataset.search).tBodies[0].rows];
    for (const row of rows) row.hidden = !matches(row.textContent.toLowerCase(), wanted);
    count(byId(`${input.dataset.search}-count`), rows.filter((row) => !row.hidden).length, rows.length);
  }

  // Enlarging: the pictures of one gallery follow one another.

  const dialog = byId("enlarged");
  let shown = { thumbs: [], at: 0 };

  function show(place) {
    const at = (place + shown.thumbs.length) % shown.thumbs.length; // behind the last comes the first
    const thumb = shown.thumbs[at];
    shown.at = at;
    byId("enlarged-image").src = thumb.querySelector("img").src;
    byId("enlarged-image").alt = thumb.querySelector("img").alt;
    byId("enlarged-caption").textContent = thumb.dataset.caption;
    byId("enlarged-place").textContent = `${at + 1} of ${shown.thumbs.length}`;
    for (const id of ["enlarged-before", "enlarged-after"]) byId(id).hidden = shown.thumbs.length < 2;
  }

  function enlarge(thumb) {
    const thumbs = all(".thumb", thumb.closest("[data-gallery]") ?? thumb.parentElement);
    shown = { thumbs, at: 0 };
    show(thumbs.indexOf(thumb));
    dialog.showModal();
    byId("enlarged-close").focus();
  }

  const steps = { ArrowLeft: -1, ArrowRight: 1 };
  dialog.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(shown.at + steps[event.key]);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
  byId("enlarged-before").addEventListener("click", () => show(shown.at - 1));
  byId("enlarged-after").addEventListener("click", () => show(shown.at + 1));
  byId("enlarged-close").addEventListener("click", () => dialog.close());

  // Theme: the system's, or one that is kept for this page.

  const themes = ["system", "light", "dark"];
  const root = document.documentElement;

  function choose(theme) {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    byId("theme").textContent = `Theme: ${theme}`;
  }

  function kept() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // a browser may refuse storage to files
    }
  }

  byId("theme").addEventListener("click", () => {
    const theme = themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length];
    choose(theme);
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // then it holds until the page is closed
    }
  });

  choose(themes.includes(kept()) ? kept() : "system");
  root.classList.add("js");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.matches("[data-sort]")) sort(button);
    else if (button?.matches(".thumb")) enlarge(button);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-search]")) search(event.target);
  });

  return { all, byId, count, formatted, matches, words };
})();
