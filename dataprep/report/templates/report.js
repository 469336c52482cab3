// The dataset page: draws contact sheets when they become visible, and pages through the rejected files.
"use strict";

(() => {
  const { all, byId, count, formatted, matches, words } = Page;

  function element(name, text, className) {
    const created = document.createElement(name);
    if (text !== undefined) created.textContent = text;
    if (className) created.className = className;
    return created;
  }

  // Contact sheets: [name, rows, [[JPEG in base64, width, height, caption], ...]] per class.

  function showSheets() {
    const sheets = JSON.parse(byId("sheets-data").textContent);
    const container = byId("sheets");
    container.style.setProperty("--thumb", `${Math.min(sheets.side, 112)}px`);
    container.style.setProperty("--sheet", sheets.pictures > 4 ? "100%" : "16rem");

    function draw(sheet) {
      const [, , pictures] = sheets.classes[sheet.dataset.number];
      const gallery = sheet.querySelector(".gallery");
      if (gallery.childElementCount) return;
      for (const [data, width, height, caption] of pictures) {
        const thumb = element("button", undefined, "thumb");
        thumb.type = "button";
        thumb.dataset.caption = caption;
        const image = element("img");
        Object.assign(image, { src: `data:image/jpeg;base64,${data}`, alt: caption, width, height });
        thumb.append(image);
        gallery.append(thumb);
      }
    }

    const observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          observer.unobserve(entry.target);
          draw(entry.target);
        }
      },
      { rootMargin: "800px" },
    );

    sheets.classes.forEach(([name, rows, pictures], number) => {
      const sheet = element("div", undefined, "sheet");
      sheet.dataset.number = number;
      const heading = element("h3");
      heading.append(element("bdi", name), element("small", `${formatted.format(rows)} ${rows === 1 ? "row" : "rows"}`));
      const gallery = element("div", undefined, "gallery");
      gallery.dataset.gallery = "";
      sheet.append(heading, pictures.length ? gallery : element("p", rows ? "not readable" : "no row", "empty"));
      container.append(sheet);
      if (pictures.length) observer.observe(sheet);
    });

    function findSheets() {
      const wanted = words(byId("sheets-search").value);
      let shown = 0;
      for (const sheet of container.children) {
        sheet.hidden = !matches(sheets.classes[sheet.dataset.number][0].toLowerCase(), wanted);
        shown += !sheet.hidden;
      }
      count(byId("sheets-count"), shown, container.childElementCount);
    }

    byId("sheets-search").addEventListener("input", findSheets);
    window.addEventListener("beforeprint", () => all(".sheet", container).filter((sheet) => sheet.querySelector(".gallery")).forEach(draw));
    findSheets();
  }

  // Rejected files: lines of reason, bytes, file and detail, shown in pages.

  function showRejected() {
    const PAGE = 50;
    const names = all("#list-reason option").slice(1).map((option) => option.textContent);
    let lines = [];
    let selected = [];
    let first = 0;

    async function unpack() {
      const packed = Uint8Array.from(atob(byId("list-data").textContent), (char) => char.charCodeAt(0));
      const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      return (await new Response(stream).text()).split("\n").slice(0, -1);
    }

    function showPage() {
      const rows = selected.slice(first, first + PAGE).map((line) => {
        const [reason, size, file, detail] = line.split("\t");
        const row = element("tr");
        const heading = element("th", names[reason]);
        heading.scope = "row";
        const name = element("td");
        name.append(element("bdi", file));
        row.append(heading, element("td", formatted.format(size), "number"), name, element("td", detail));
        return row;
      });
      byId("list").tBodies[0].replaceChildren(...rows);
      const last = Math.min(first + PAGE, selected.length);
      byId("list-range").textContent = selected.length ? `${formatted.format(first + 1)} to ${formatted.format(last)}` : "";
      byId("list-before").disabled = first === 0;
      byId("list-after").disabled = last === selected.length;
    }

    function find() {
      const wanted = words(byId("list-search").value);
      const reason = byId("list-reason").value;
      selected = lines.filter(
        (line) => (!reason || line.startsWith(`${reason}\t`)) && (!wanted.length || matches(line.toLowerCase(), wanted)),
      );
      first = 0;
      count(byId("list-count"), selected.length, lines.length);
      showPage();
    }

    function turn(by) {
      first = Math.max(0, Math.min(first + by, selected.length - 1));
      showPage();
    }

    byId("list-search").addEventListener("input", find);
    byId("list-reason").addEventListener("change", find);
    byId("list-before").addEventListener("click", () => turn(-PAGE));
    byId("list-after").addEventListener("click", () => turn(PAGE));
    unpack().then(
      (unpacked) => {
        lines = unpacked;
        find();
      },
      () => {
        byId("list-count").textContent = "This browser cannot decompress the list; see rejects.jsonl.";
      },
    );
  }

  showSheets();
  if (byId("list-data")) showRejected();
})();
