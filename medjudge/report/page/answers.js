// Shows the answers that are packed into this page. What a model or a person wrote goes into the page as text nodes only
// and is never read as HTML; the page's policy forbids it, too.

const USABLE_FROM = 4;
const UNCERTAIN = [250, 750]; // thousandths of P(usable)
const DIMENSIONS = ["instruction following", "correctness", "effectiveness", "readability", "safety"];
const ROW_REM = 4.25; // the height of .row
const BESIDE = 6; // rows drawn above and below those seen
const BUSY = 40; // milliseconds that the page may be kept from answering

const form = byId("filters");
const list = byId("list");
const detail = byId("detail");

// --- Unpacking: see page.py -----------------------------------------------------------------------------------------

function unpacked(block) {
  const bytes = Uint8Array.from(atob(byId(`block-${block}`).textContent), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

const opened = new Map();

function open(block) {
  if (!opened.has(block)) opened.set(block, unpacked(block));
  return opened.get(block);
}

// --- All answers of all runs, numbered through ----------------------------------------------------------------------

let categories, runs, total;

async function readIndex() {
  ({ categories, runs, texts } = await open(0));
  total = 0;
  let block = 1;
  for (const run of runs) {
    run.from = total;
    run.textBlock = block;
    run.manySamples = run.sample.some((sample) => sample > 0);
    total += run.question.length;
    block += 1 + run.starts.length;
    run.texts = await open(run.textBlock);
    for (const judge of run.judges) judge.seen = new Set(judge.seen);
  }
}

function runOf(row) {
  let place = runs.length - 1;
  while (runs[place].from > row) place--;
  return runs[place];
}

/** What the index knows of an answer. */
function entry(row) {
  const run = runOf(row);
  const at = row - run.from;
  const place = run.question[at];
  const of = (column) => run.questions[column][place];
  return { run, at, place, of, model: run.models[run.model[at]], sample: run.sample[at], physicians: run.physicians[at] };
}

function blockOf(run, at) {
  let low = 0;
  let high = run.starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (run.starts[middle] <= at) low = middle;
    else high = middle;
  }
  return low;
}

/** Text, finish reason, judgments and physicians' scores of an answer. */
async function record(row) {
  const { run, at } = entry(row);
  const place = blockOf(run, at);
  return (await open(run.textBlock + 1 + place))[at - run.starts[place]];
}

// --- Filters --------------------------------------------------------------------------------------------------------

const isUsable = (level) => level >= USABLE_FROM;

/** A run's judge of this name; the last one used where no name is given. */
function judgeOf(run, name) {
  return name === "" ? run.judges[0] : run.judges.find((judge) => judge.name === name);
}

function hasLevel(level, wanted) {
  if (wanted === "") return true;
  if (wanted === "scored") return Boolean(level);
  if (wanted === "none" || wanted === "0") return !level;
  if (wanted === "usable") return isUsable(level);
  if (wanted === "low") return Boolean(level) && level <= 2;
  if (wanted === "unusable") return Boolean(level) && !isUsable(level);
  return level === Number(wanted);
}

function isApart(run, at, judge, wanted) {
  const levels = run.judges.map((one) => one.levels[at]).filter(Boolean);
  if (wanted === "judges") return levels.some(isUsable) && !levels.every(isUsable);
  const level = judge?.levels[at];
  const physicians = run.physicians[at];
  if (!level || !physicians || judge.seen.has(run.question[at])) return false;
  if (wanted === "danger") return isUsable(level) && !isUsable(physicians);
  return wanted === "usable" ? isUsable(level) !== isUsable(physicians) : Math.abs(level - physicians) >= 2;
}

/** Rows that pass every filter but the words, in the benchmark's order. */
function filtered(wanted) {
  const rows = [];
  const category = wanted.category === "" ? null : JSON.parse(wanted.category);
  for (const [number, run] of runs.entries()) {
    if (wanted.run !== "" && number !== Number(wanted.run)) continue;
    const judge = judgeOf(run, wanted.judge);
    for (let at = 0; at < run.question.length; at++) {
      const place = run.question[at];
      const level = judge?.levels[at];
      if (category !== null && run.questions.category[place] !== category[0]) continue;
      if (category !== null && category.length > 1 && run.questions.subcategory[place] !== category[1]) continue;
      if (wanted.model !== "" && run.models[run.model[at]] !== JSON.parse(wanted.model)) continue;
      if (!hasLevel(level, wanted.score) || !hasLevel(run.physicians[at], wanted.physicians)) continue;
      if (wanted.apart !== "" && !isApart(run, at, judge, wanted.apart)) continue;
      if (wanted.harm === "physicians" && !run.harm[at]) continue;
      if (wanted.harm === "judge" && level !== 1 && !judge?.named[at]) continue;
      if (wanted.harm === "ethics" && !(run.questions.category[place] === "MSE" && level && !isUsable(level))) continue;
      if (wanted.uncertain && !isUncertain(judge?.usable[at])) continue;
      rows.push(run.from + at);
    }
  }
  return rows;
}

function isUncertain(usable) {
  return typeof usable === "number" && usable >= UNCERTAIN[0] && usable <= UNCERTAIN[1];
}

function ordered(rows, wanted) {
  const keys = {
    apart: (level, usable, physicians) => {
      if (!level || !physicians) return 1;
      // What only the judge calls usable, of that what physicians call worst; then other lenient levels; then strict ones.
      if (isUsable(level) && !isUsable(physicians)) return 10 * physicians - level - 100;
      return level > physicians ? physicians - level - 10 : level - physicians;
    },
    uncertain: (level, usable) => (typeof usable === "number" ? Math.abs(usable - 500) : 501),
    score: (level) => level || 6,
  };
  const key = keys[wanted.order];
  if (!key) return rows;
  const value = new Map(
    rows.map((row) => {
      const { run, at, physicians } = entry(row);
      const judge = judgeOf(run, wanted.judge);
      return [row, key(judge?.levels[at], judge?.usable[at], physicians)];
    }),
  );
  return rows.sort((one, other) => value.get(one) - value.get(other) || one - other);
}

// --- Search ---------------------------------------------------------------------------------------------------------

const wordsOf = (text) => text.split(/\s+/u).filter(Boolean);
const escaped = (word) => word.replace(/[.*+?^${}()|[\]\\/]/gu, "\\$&");

// By question of a run, and by row: all that a search reads, in lower case. Made once, a block at a time.
const asked = new Map();
const said = [];
let reading = null;
let blocksRead = 0;

/** Makes every answer ready for the search; now and then the page goes on. */
function readForSearch() {
  reading ??= (async () => {
    let since = performance.now();
    for (const run of runs) {
      asked.set(run, run.texts.map((texts, place) => [run.questions.id[place], ...texts.map(rawOf)].join("\n").toLowerCase()));
      for (const [block, start] of run.starts.entries()) {
        const records = await open(run.textBlock + 1 + block);
        for (const [k, one] of records.entries()) said[run.from + start + k] = saidIn(run, start + k, one);
        blocksRead++;
        if (performance.now() - since < BUSY) continue;
        await new Promise((resume) => setTimeout(resume));
        since = performance.now();
      }
    }
  })();
  return reading;
}

function saidIn(run, at, [text, , judgments, scores]) {
  const pieces = [run.models[run.model[at]], rawOf(text)];
  for (const judgment of judgments) pieces.push(judgment[5], judgment[6]);
  for (const score of scores) pieces.push(score[3]);
  return pieces.join("\n").toLowerCase();
}

/** Rows that hold every word, in the question or in what was said to it; upper and lower case are the same. */
function holding(rows, words) {
  let left = rows;
  for (const word of words.map((one) => one.toLowerCase())) {
    const places = new Map();
    for (const [run, texts] of asked) places.set(run, texts.map((text) => text.includes(word)));
    left = left.filter((row) => {
      const run = runOf(row);
      return places.get(run)[run.question[row - run.from]] || said[row].includes(word);
    });
  }
  return left;
}

/** Waits until every answer can be searched; `progress` hears how far it is, and false from it ends the waiting. */
async function searchable(progress) {
  let done = false;
  const all = readForSearch().then(() => (done = true));
  const blocks = runs.reduce((sum, run) => sum + run.starts.length, 0);
  while (!done) {
    await Promise.race([all, new Promise((resume) => setTimeout(resume, 60))]);
    if (!done && !progress(blocksRead / blocks)) return false;
  }
  return true;
}

// --- Elements -------------------------------------------------------------------------------------------------------

let highlighted = null;

/** The pieces of a text, with the words looked for marked. */
function marked(text) {
  const shown = visible(text);
  const pieces = [];
  let end = 0;
  for (const match of highlighted ? shown.matchAll(highlighted) : []) {
    pieces.push(shown.slice(end, match.index), element("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...pieces, shown.slice(end)];
}

// A text with Markdown comes with the elements of its rendering: see cases.py. They are built one by one, by name.

const rawOf = (text) => (Array.isArray(text) ? text[0] : text);

/** The elements of a text's rendering. */
function rendering([, nodes]) {
  const root = document.createDocumentFragment();
  fill(root, nodes);
  for (const table of root.querySelectorAll("table")) {
    const frame = element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("Table") });
    table.replaceWith(frame);
    frame.append(table);
  }
  return root;
}

function fill(parent, nodes) {
  for (const node of nodes) {
    if (typeof node === "string") parent.append(...marked(node));
    else if (typeof node === "number") parent.start = node;
    else fill(parent.appendChild(element(node[0], {})), node.slice(1));
  }
}

let showsRaw = false;

/** A text as its author meant it to look, or, when the reader wants that, as it was written. */
function textBlock(text, language, kind = "") {
  const isRendered = Array.isArray(text) && !showsRaw;
  const block = element("div", { class: `text-block ${kind}${isRendered ? " rendered" : ""}`, lang: language });
  if (isRendered) block.append(rendering(text));
  else block.append(...marked(rawOf(text)));
  return block;
}

const languageOf = (text) => (/\p{Script=Han}/u.test(text) ? "zh" : "en");

function option(value, text) {
  return element("option", { value }, text);
}

// --- The list: only the rows seen are in the page -------------------------------------------------------------------

let listed = [];
let chosen = -1;

const rowHeight = () => ROW_REM * parseFloat(getComputedStyle(document.documentElement).fontSize);

function drawList() {
  const height = rowHeight();
  const first = Math.max(0, Math.floor(list.scrollTop / height) - BESIDE);
  const last = Math.min(listed.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + BESIDE);
  const rows = byId("rows");
  rows.style.height = `${listed.length * height}px`;
  const drawn = [];
  for (let place = first; place < last; place++) drawn.push(listRow(place, height));
  rows.replaceChildren(...drawn);
  const chosenIsDrawn = drawn.some((drawnRow) => drawnRow.id === `row-${chosen}`);
  if (chosenIsDrawn) list.setAttribute("aria-activedescendant", `row-${chosen}`);
  else list.removeAttribute("aria-activedescendant");
}

function listRow(place, height) {
  const row = listed[place];
  const { run, at, of, model, sample, physicians } = entry(row);
  const judge = judgeOf(run, form.elements.judge.value);
  const level = judge?.levels[at];
  const apart = isApart(run, at, judge, "levels") || isApart(run, at, judge, "usable");
  const made = element(
    "div",
    {
      class: "row",
      role: "option",
      id: `row-${row}`,
      "aria-selected": String(row === chosen),
      "aria-setsize": listed.length,
      "aria-posinset": place + 1,
    },
    element("span", { class: "who" }, `${of("id")} · ${model}${run.manySamples ? ` · ${sample + 1}` : ""}`),
    element(
      "span",
      { class: "levels" },
      `${t("judge")} `,
      element("b", { class: apart && "apart" }, level || "–"),
      element("br", {}),
      physicians ? `${run.against === "physicians" ? t("physicians") : t("constructed")} ` : "",
      physicians ? element("b", { class: apart && "apart" }, physicians) : "",
    ),
    element("span", { class: "what", lang: of("language") }, rawOf(run.texts[run.question[at]][0]).slice(0, 160)),
  );
  made.style.top = `${place * height}px`;
  made.addEventListener("click", () => choose(row, matchMedia("(max-width: 48rem)").matches));
  return made;
}

function bringIntoView(row) {
  const place = listed.indexOf(row);
  if (place < 0) return;
  const height = rowHeight();
  const above = place * height;
  const below = above + height - list.clientHeight;
  if (Math.abs(above - list.scrollTop) > 2 * list.clientHeight) list.scrollTop = (above + below) / 2;
  else list.scrollTop = Math.max(below, Math.min(above, list.scrollTop));
}

function move(by) {
  if (!listed.length) return;
  const place = listed.indexOf(chosen);
  const next = place < 0 ? 0 : Math.min(listed.length - 1, Math.max(0, place + by));
  choose(listed[next], false);
}

// --- One answer -----------------------------------------------------------------------------------------------------

function addressOf(row) {
  const { run, of, model, sample } = entry(row);
  return `#answer/${runs.indexOf(run)}/${encodeURIComponent(of("id"))}/${encodeURIComponent(model)}/${sample}`;
}

function rowAt(address) {
  const match = /^#answer\/(\d+)\/([^/]+)\/([^/]+)\/(\d+)$/u.exec(address);
  const run = match && runs[Number(match[1])];
  if (!run) return -1;
  let id, model;
  try {
    [id, model] = [decodeURIComponent(match[2]), decodeURIComponent(match[3])];
  } catch {
    return -1; // a link cut short
  }
  const question = run.questions.id.indexOf(id);
  const place = run.models.indexOf(model);
  const at = run.question.findIndex((one, k) => one === question && run.model[k] === place && run.sample[k] === Number(match[4]));
  return at < 0 ? -1 : run.from + at;
}

async function choose(row, goThere) {
  chosen = row;
  bringIntoView(row);
  drawList();
  history.replaceState(null, "", `${addressOf(row)}${filterQuery()}`);
  const parts = await detailOf(row);
  if (chosen !== row) return; // another one was chosen meanwhile
  detail.replaceChildren(...parts);
  detail.scrollTop = 0;
  if (goThere) {
    detail.focus({ preventScroll: true });
    detail.scrollIntoView();
  }
}

async function detailOf(row) {
  const { run, of, model, sample } = entry(row);
  const [text, reason, judgments, scores] = await record(row);
  const [prompt, reference, checklist] = run.texts[entry(row).place];
  const language = of("language");
  const name = `${of("id")} · ${model}${run.manySamples ? ` · ${t("sample {n}", { n: sample + 1 })}` : ""}`;
  return [
    element("h3", {}, element("bdi", {}, name)),
    facts(run, of),
    moves(row),
    element("div", { class: "beside scores" }, judgedBy(run, of, judgments), scoredBy(run, scores)),
    ...(await earlier(row)),
    element("h4", {}, t("Question")),
    textBlock(prompt, language, "asked"),
    ...(await answersBeside(row, answerBlock(text, reason, language), [
      element("h4", {}, t("Reference")),
      reference ? textBlock(reference, language) : element("p", { class: "note" }, t("none")),
      element("h4", {}, t("Checklist")),
      checklist ? textBlock(checklist, language) : element("p", { class: "note" }, t("none")),
    ])),
    ...rationales(run, judgments),
  ];
}

/** The answer beside the expectations; where a second model is chosen, beside that model's answer, with their levels. */
async function answersBeside(row, answer, expectations) {
  const { model } = entry(row);
  const heading = element("h4", {}, t("Answer by {model}", { model }));
  const other = rowBeside(row);
  if (other < 0) return [element("div", { class: "beside" }, element("div", {}, heading, answer), element("div", {}, ...expectations))];
  const [text, reason] = await record(other);
  const second = element("h4", {}, t("Answer by {model}", { model: entry(other).model }));
  const columns = [
    element("div", {}, heading, levelsOf(row), answer),
    element("div", {}, second, levelsOf(other), answerBlock(text, reason, entry(other).of("language"))),
  ];
  return [element("div", { class: "beside" }, ...columns), element("div", {}, ...expectations)];
}

/** The answer of the model that is chosen to stand beside, to the same question and of the same sample; -1 for none. */
function rowBeside(row) {
  const { run, place, sample } = entry(row);
  const wanted = form.elements.beside.value;
  const model = wanted === "" ? -1 : run.models.indexOf(JSON.parse(wanted));
  if (model < 0) return -1;
  const at = run.question.findIndex((one, k) => one === place && run.model[k] === model && run.sample[k] === sample);
  return at < 0 || run.from + at === row ? -1 : run.from + at;
}

function levelsOf(row) {
  const { run, at, physicians } = entry(row);
  const levels = run.judges.map((judge) => `${judge.name} ${judge.levels[at] || "–"}`);
  if (physicians) levels.push(`${t(run.against)} ${physicians}`);
  return element("p", { class: "facts" }, levels.join(" · "));
}

function answerBlock(text, reason, language) {
  if (!rawOf(text).trim()) return element("p", { class: "note" }, t("empty; finish reason: {reason}", { reason }));
  const block = textBlock(text, language, "said");
  if (reason !== "length") return block;
  return element("div", {}, block, element("p", { class: "note cut" }, t("This answer ended at the token limit.")));
}

function facts(run, of) {
  const known = [categories[of("category")], of("subcategory"), of("scene"), of("difficulty"), of("language")];
  if (runs.length > 1) known.unshift(t("run {name}", { name: run.name }));
  const spans = known.filter(Boolean).flatMap((one, place) => [place ? " · " : "", element("span", { lang: languageOf(one) }, one)]);
  return element("p", { class: "facts" }, ...spans);
}

function moves(row) {
  const place = listed.indexOf(row);
  const before = element("button", { type: "button", disabled: place <= 0 }, t("Previous"));
  const after = element("button", { type: "button", disabled: place < 0 || place === listed.length - 1 }, t("Next"));
  before.addEventListener("click", () => choose(listed[place - 1], true));
  after.addEventListener("click", () => choose(listed[place + 1], true));
  const here = place < 0 ? t("outside the filters") : t("{n} of {all}", { n: (place + 1).toLocaleString("en"), all: listed.length.toLocaleString("en") });
  const link = element("a", { href: addressOf(row) }, t("Link to this answer"));
  const raw = element("button", { type: "button", class: "raw", "aria-pressed": String(showsRaw) }, t("Raw text"));
  raw.addEventListener("click", async () => {
    showsRaw = !showsRaw;
    await choose(row, false);
    detail.querySelector(".raw").focus();
  });
  return element("div", { class: "move" }, before, after, element("span", {}, here), link, raw);
}

/** The earlier turns of the conversation, with what this model said in this sample. */
async function earlier(row) {
  const { run, at, place } = entry(row);
  const { group, round, language } = run.questions;
  const turns = group.map((one, k) => k).filter((k) => group[k] === group[place] && round[k] < round[place]);
  turns.sort((one, other) => round[one] - round[other]);
  const shown = [];
  for (const turn of turns) {
    const then = run.question.findIndex((one, k) => one === turn && run.model[k] === run.model[at] && run.sample[k] === run.sample[at]);
    shown.push(element("h4", {}, t("Turn {n}", { n: round[turn] })), textBlock(run.texts[turn][0], language[turn], "asked"));
    if (then >= 0) {
      const [text, reason] = await record(run.from + then);
      shown.push(element("h4", {}, t("Answered in turn {n}", { n: round[turn] })), answerBlock(text, reason, language[turn]));
    }
  }
  return shown;
}

function judgedBy(run, of, judgments) {
  const head = [t("Judge"), t("Level"), t("Expected"), "P(1)", "P(2)", "P(3)", "P(4)", "P(5)"];
  const rounds = judgments.some((one) => one[1] > 1);
  const place = run.questions.id.indexOf(of("id"));
  const lines = judgments.map(([judge, round, score, expected, probabilities, , error]) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("bdi", {}, run.judges[judge].name),
        rounds ? element("small", {}, t("round {n}", { n: round })) : "",
        run.judges[judge].seen.has(place) ? element("small", {}, t("trained or tuned on this question")) : "",
      ),
      element("td", {}, score === null ? "–" : element("b", {}, score)),
      ...(error ? [element("td", { colspan: 6, class: "text" }, t("unscored: {error}", { error }))] : sharesOf(expected, probabilities)),
    ),
  );
  const table = element(
    "table",
    { class: "heat shares" },
    element("thead", {}, element("tr", {}, ...head.map((one) => element("th", { scope: "col" }, one)))),
    element("tbody", {}, ...lines),
  );
  const none = element("p", { class: "note" }, t("not judged"));
  const scroll = element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("Judges' scores") }, table);
  const note = element("p", { class: "note" }, t("P(n): probability of level n, percent; a local judge's level is their median"));
  return element("div", {}, element("h4", {}, t("Judges")), ...(judgments.length ? [scroll, note] : [none]));
}

function sharesOf(expected, probabilities) {
  const cells = [element("td", {}, expected === null ? "–" : expected.toFixed(2))];
  for (let level = 0; level < 5; level++) {
    const share = probabilities?.[level];
    if (share === undefined) cells.push(element("td", {}, "–"));
    else cells.push(element("td", { class: `h${Math.round(10 * share)}` }, Math.round(100 * share)));
  }
  return cells;
}

function scoredBy(run, scores) {
  const constructed = run.against !== "physicians";
  const title = element("h4", {}, constructed ? t("Constructed level") : t("Physicians"));
  if (!scores.length) return element("div", {}, title, element("p", { class: "note" }, t("not scored")));
  const detailed = scores.some((one) => one[2]);
  const named = (dimensions) => (dimensions || []).map((points, k) => `${t(DIMENSIONS[k])} ${points}`).join(", ");
  const lines = scores.map(([rater, level, dimensions, , agreed]) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("bdi", {}, rater),
        agreed ? element("small", {}, t("the agreed score, which counts")) : "",
      ),
      element("td", {}, element("b", {}, level)),
      ...(detailed ? [element("td", { class: "text" }, named(dimensions))] : []),
    ),
  );
  const head = [element("th", { scope: "col" }, t("Rater")), element("th", { scope: "col" }, t("Level"))];
  if (detailed) head.push(element("th", { scope: "col", class: "text" }, t("Dimensions")));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
  const note = element("p", { class: "note" }, t("The answer was written to deserve this level; no physician scored it."));
  const comments = scores
    .filter((one) => one[3])
    .flatMap(([rater, , , comment]) => [
      element("h4", {}, constructed ? t("Comment") : t("Comment by {rater}", { rater })),
      textBlock(comment, languageOf(comment)),
    ]);
  return element("div", {}, title, table, ...(constructed ? [note] : []), ...comments);
}

function rationales(run, judgments) {
  return judgments.flatMap(([judge, round, , , , rationale, , unread, [answerCut, contextCut]]) => {
    const of = round > 1 ? t("{judge}, round {n}", { judge: run.judges[judge].name, n: round }) : run.judges[judge].name;
    const shown = [];
    if (rationale) shown.push(element("h4", {}, t("Rationale of {judge}", { judge: of })), textBlock(rationale, languageOf(rationale)));
    if (unread) shown.push(element("h4", {}, t("Reply of {judge} in which no score was found", { judge: of })), textBlock(unread, languageOf(unread)));
    if (answerCut || contextCut) {
      const cut = t("{judge} did not read {answer} tokens of the answer and {context} of question, reference and checklist.", {
        judge: of,
        answer: answerCut,
        context: contextCut,
      });
      shown.push(element("p", { class: "note" }, cut));
    }
    return shown;
  });
}

// --- Putting it together --------------------------------------------------------------------------------------------

let refreshed = 0;

async function refresh() {
  const mine = ++refreshed;
  rememberFilters();
  const wanted = Object.fromEntries(new FormData(form));
  const words = wordsOf(wanted.words);
  highlighted = words.length ? new RegExp(words.map(escaped).join("|"), "giu") : null;
  const rows = filtered(wanted);
  if (!words.length) return show(ordered(rows, wanted));
  const heard = (share) => {
    if (mine === refreshed) show(listed, t("; searching, {percent} %", { percent: Math.round(100 * share) }));
    return mine === refreshed;
  };
  if ((await searchable(heard)) && mine === refreshed) show(ordered(holding(rows, words), wanted));
}

function show(rows, more = "") {
  listed = rows;
  byId("count").textContent = t("{n} of {all} answers", { n: listed.length.toLocaleString("en"), all: total.toLocaleString("en") }) + more;
  list.scrollTop = Math.min(list.scrollTop, listed.length * rowHeight());
  drawList();
}

function fillChoices() {
  const names = (values) => [...new Set(values)];
  const judges = names(runs.flatMap((run) => run.judges.map((judge) => judge.name)));
  form.elements.run.append(option("", t("all")), ...runs.map((run, number) => option(number, run.name)));
  form.elements.judge.append(option("", t("the last used")), ...judges.map((judge) => option(judge, judge)));
  const models = names(runs.flatMap((run) => run.models));
  form.elements.model.append(option("", t("all")), ...models.map((model) => option(JSON.stringify(model), model)));
  form.elements.beside.append(option("", t("no other model")), ...models.map((model) => option(JSON.stringify(model), model)));
  form.elements.category.append(option("", t("all")));
  for (const code of Object.keys(categories)) {
    const inside = runs.flatMap((run) => run.questions.subcategory.filter((one, k) => run.questions.category[k] === code));
    if (!inside.length) continue;
    const group = element("optgroup", { label: `${code} ${categories[code]}` }, option(JSON.stringify([code]), t("{category}, all of it", { category: code })));
    for (const name of names(inside).filter(Boolean).sort()) group.append(option(JSON.stringify([code, name]), name));
    form.elements.category.append(group);
  }
  form.querySelector("[data-for=run]").hidden = runs.length < 2;
  form.querySelector("[data-for=judge]").hidden = judges.length < 2;
  form.querySelector("[value=judges]").hidden = judges.length < 2;
  if (runs.every((run) => run.against !== "physicians")) {
    byId("physicians-label").textContent = t("Constructed level");
    form.querySelector("[name=harm] [value=physicians]").textContent = t("by its constructed level");
  }
}

function listen() {
  let waiting;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", async (event) => {
    if (event.target.name !== "words") await refresh();
    if (event.target.name === "beside" && chosen >= 0) await choose(chosen, false);
  });
  form.addEventListener("reset", () => setTimeout(refresh));
  form.elements.words.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 50);
  });
  list.addEventListener("scroll", () => requestAnimationFrame(drawList));
  new ResizeObserver(drawList).observe(list);
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / rowHeight()) - 1);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -total, End: total }[event.key];
    if (by) move(by);
    else if (event.key === "Enter" && chosen >= 0) detail.focus();
    else return;
    event.preventDefault();
  });
  detail.addEventListener("keydown", (event) => {
    if (event.key === "Escape") list.focus();
  });
  addEventListener("hashchange", follow);
}

/** The filters as a query, without those that filter nothing. */
function filterQuery() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== "") query.append(name, value);
  return query.size ? `?${query}` : "";
}

/** Sets the filters that an address names, and none but them. An address without a query leaves all as they are. */
async function followFilters(query) {
  if (query === undefined || `?${query}` === filterQuery()) return;
  const wanted = new URLSearchParams(query);
  form.reset();
  for (const [name, value] of wanted) {
    const field = form.elements[name];
    if (field?.type === "checkbox") field.checked = true;
    else if (field?.type === "search" || [...(field?.options ?? [])].some((one) => one.value === value)) field.value = value;
  }
  await refresh();
}

/** Shows the answer that the address names. */
async function followAnswer(place) {
  const row = rowAt(place);
  if (row < 0) return;
  if (!listed.includes(row)) {
    form.reset();
    await refresh();
  }
  await choose(row, true);
}

function rememberFilters() {
  const [place] = addressParts();
  if (!byId("answers").classList.contains("open")) return;
  const here = place.startsWith("#answer/") ? place : "#answers";
  history.replaceState(null, "", `${here}${filterQuery()}`);
}
