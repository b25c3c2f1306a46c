// --- The answers that pass the filters, as a file --------------------------------------------------------------------

const COLUMNS = ["run", "question_id", "category", "subcategory", "model", "sample", "judge", "validated", "level", "p_usable", "physicians", "question", "answer"];

/** A line for each answer listed, by the judge that the filters name, with the judge's status for its category. */
async function answerRows() {
  const rows = [];
  for (const row of listed) {
    const { run, at, place, of, model, sample, physicians } = entry(row);
    const judge = judgeOf(run, form.elements.judge.value);
    const usable = judge?.usable[at];
    const [text] = await record(row);
    rows.push([
      run.name,
      of("id"),
      of("category"),
      of("subcategory"),
      model,
      sample,
      judge?.name,
      judge?.states[of("category")],
      judge?.levels[at] || "",
      typeof usable === "number" ? usable / 1000 : "",
      physicians,
      rawOf(run.texts[place][0]),
      rawOf(text),
    ]);
  }
  return [COLUMNS, ...rows.map((cells) => cells.map((cell) => String(cell ?? "")))];
}

function prepareAnswersFile() {
  byId("save-answers").addEventListener("click", async () => download(csvOf(await answerRows()), "answers.csv"));
}
