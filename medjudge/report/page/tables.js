// --- Tables: sorted by a column and saved as CSV; they and plots are saved as PNG: see pictures.js -------------------

/** The cells that hold text, each with the column it begins in; a drawn bar is none of them. */
function cellsOf(row) {
  let column = 0;
  const cells = [];
  for (const cell of row.cells) {
    // A heading over a bar and its number stands over the number.
    const drawn = cell.classList.contains("drawn");
    const span = cell.colSpan;
    if (!drawn) cells.push({ cell, column: cell.tagName === "TH" && cell.scope === "col" ? column + span - 1 : column });
    column += span;
  }
  return cells;
}

const cellAt = (row, column) => cellsOf(row).find((one) => one.column === column)?.cell;
const headingOf = (table) => table.rows[0];
const isGroup = (row) => row.classList.contains("group");

/** A cell as one line: what stands small beside a value, such as its interval, in brackets. */
function cellText(cell) {
  const small = [...cell.querySelectorAll("small")].map((one) => one.textContent.trim());
  const copy = cell.cloneNode(true);
  for (const one of copy.querySelectorAll("small")) one.remove();
  const main = copy.textContent.replace(/\s+/gu, " ").trim();
  return small.length ? `${main} (${small.join("; ")})`.trim() : main;
}

function sortValue(cell) {
  const text = cell ? cellText(cell) : "";
  const number = parseFloat(text.replace(/,/gu, ""));
  const isNumber = /^[+<−-]?\s*[\d.]/u.test(text) && !/^\d{4}-\d\d-\d\d/u.test(text); // a date sorts as text
  return { text, number: isNumber ? number : NaN };
}

function compare(one, other, down) {
  const numbers = [one, other].map((value) => value.number);
  if (numbers.every(Number.isFinite)) return down ? numbers[1] - numbers[0] : numbers[0] - numbers[1];
  if (numbers.some(Number.isFinite)) return Number.isFinite(numbers[0]) ? -1 : 1; // what has no number comes last
  return (down ? -1 : 1) * one.text.localeCompare(other.text, undefined, { numeric: true });
}

/** Sorts the rows of a table, those of a group below its heading, and says so to screen readers. */
function sortBy(table, column) {
  const heading = cellAt(headingOf(table), column);
  const rows = [...table.rows].slice(1);
  const numeric = rows.some((row) => !isGroup(row) && Number.isFinite(sortValue(cellAt(row, column)).number));
  const before = heading.getAttribute("aria-sort");
  const down = before === null ? numeric : before === "ascending";
  for (const other of headingOf(table).cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const groups = [[]];
  for (const row of rows) {
    if (isGroup(row)) groups.push([row]);
    else groups.at(-1).push(row);
  }
  for (const group of groups) {
    const head = group.filter(isGroup);
    const body = group.filter((row) => !isGroup(row));
    const keys = new Map(body.map((row) => [row, sortValue(cellAt(row, column))]));
    body.sort((one, other) => compare(keys.get(one), keys.get(other), down));
    rows[0].parentNode.append(...head, ...body);
  }
}

function makeSortable(table) {
  if (table.rows.length < 3) return;
  for (const { cell, column } of cellsOf(headingOf(table))) {
    if (cell.tagName !== "TH") continue;
    const button = element("button", { type: "button", class: "sort" });
    button.append(...cell.childNodes);
    button.addEventListener("click", () => sortBy(table, column));
    cell.append(button);
  }
}

/** A cell of CSV. A spreadsheet would take some beginnings for a formula; numbers keep their sign. */
function csvCell(text) {
  const formula = /^[=+\-@\t\r]/u.test(text) && !/^[+-][\d.]/u.test(text);
  const safe = formula ? `'${text}` : text;
  return /[",\n]/u.test(safe) ? `"${safe.replace(/"/gu, '""')}"` : safe;
}

/** Rows of texts as a file that spreadsheet programs open. */
function csvOf(rows) {
  const lines = rows.map((row) => row.map(csvCell).join(","));
  return new Blob([`\ufeff${lines.join("\r\n")}\r\n`], { type: "text/csv" });
}

function download(blob, name) {
  const link = element("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** The name of a table's or a plot's file: its caption or label, and the heading above it. */
function fileName(titled, suffix) {
  const caption = titled.querySelector("caption")?.firstChild.textContent;
  const title = caption ?? titled.dataset.name ?? titled.parentNode.getAttribute("aria-label") ?? "";
  const whose = titled.closest(".panel")?.dataset.title ?? "";
  const name = `${whose} ${title}`.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/gu, "");
  return `${name.slice(0, 80) || "table"}.${suffix}`;
}

const INTERVAL = /^([+−-]?[\d.]+) ?(?:–|to|至) ?([+−-]?[\d.]+)$/u;

/** The value of a cell and the ends of its interval; what else is small beside it stays with the value. */
function valueAndEnds(cell) {
  const copy = cell.cloneNode(true);
  const small = [...copy.querySelectorAll("small")].find((one) => INTERVAL.test(one.textContent.trim()));
  if (!small) return [cellText(cell), "", ""];
  const [, low, high] = INTERVAL.exec(small.textContent.trim());
  small.remove();
  return [cellText(copy), low, high];
}

/** Rows with columns at their end that say where the numbers are from: run, date, judge, validation status. */
function withOrigin(rows, shown) {
  const origin = JSON.parse(shown.closest(".panel")?.dataset.columns ?? "[]");
  return rows.map((row, place) => [...row, ...origin.map(([name, value]) => (place === 0 ? name : value))]);
}

/** A table's rows: columns with intervals have one more for each end. */
function rowsOf(table) {
  const rows = [...table.rows].map((row) => cellsOf(row).map(({ cell }) => valueAndEnds(cell)));
  const wide = new Set(rows.flatMap((row) => row.flatMap(([, low], column) => (low ? [column] : []))));
  return rows.map((row, place) =>
    row.flatMap((cell, column) => {
      if (!wide.has(column)) return [cell[0]];
      return place === 0 ? [cell[0], `${cell[0]}: ${t("low")}`, `${cell[0]}: ${t("high")}`] : cell;
    }),
  );
}

function saveTable(table) {
  const { csv } = table.dataset;
  const file = csv ? new Blob([`\ufeff${JSON.parse(csv)}`], { type: "text/csv" }) : csvOf(withOrigin(rowsOf(table), table));
  download(file, fileName(table, "csv"));
}

function saver(text, label, save) {
  const button = element("button", { type: "button", class: "save", "aria-label": label, title: label }, text);
  button.addEventListener("click", save);
  return button;
}

function prepareTables(places) {
  for (const table of document.querySelectorAll(`:is(${places}) table`)) {
    const buttons = element(
      "span",
      { class: "savers" },
      saver("CSV", t("Save this table as CSV"), () => saveTable(table)),
      saver("PNG", t("Save this table as PNG"), () => saveTablePicture(table)),
    );
    if (table.caption) table.caption.append(" ", buttons);
    else table.closest(".scroll").after(buttons);
    if (table.closest(".scroll")) makeSortable(table);
  }
  for (const image of document.querySelectorAll(".plots img")) {
    const figure = element("figure", {});
    image.replaceWith(figure);
    const picture = saver("PNG", t("Save this plot as PNG"), () => savePlot(image));
    figure.append(image, element("span", { class: "savers" }, picture));
  }
}
