// Keyboard shortcuts. The page works without them: each presses a button, follows a link or checks a radio button.
"use strict";

const form = document.querySelector("form[data-item]");
const SETTLE = 350; // milliseconds in which a key or click meant for the previous screen does not score this one

if (form) {
  const comment = form.elements.comment;
  const refusal = form.querySelector(".said b");
  const groups = [...form.querySelectorAll(".dimensions fieldset")];
  const save = form.querySelector(".save");
  const draft = `comment ${form.dataset.item}`;
  const shown = performance.now();
  let sent = false;
  let here = -1;

  // A comment that was typed but not saved survives a look at another answer.
  if (sessionStorage.getItem(draft) !== null) comment.value = sessionStorage.getItem(draft);
  comment.addEventListener("input", () => sessionStorage.setItem(draft, comment.value));
  comment.addEventListener("focus", () => {
    const hidden = comment.getBoundingClientRect().bottom > form.querySelector(".bar").getBoundingClientRect().top;
    if (hidden) comment.scrollIntoView({ block: "nearest" });
  });

  // Texts are shown as they were written until the rater switches back.
  const raw = document.querySelector("#raw");
  raw.checked = sessionStorage.getItem("raw") === "yes";
  raw.addEventListener("change", () => {
    sessionStorage.setItem("raw", raw.checked ? "yes" : "no");
    raw.blur(); // keys are for scores
  });

  form.addEventListener("submit", (event) => {
    if (sent || performance.now() - shown < SETTLE) return event.preventDefault();
    sent = true;
    sessionStorage.removeItem(draft);
  });
  // A page from the browser's history is loaded again.
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());

  const mark = (index) => {
    here = Math.max(0, Math.min(index, groups.length));
    [...groups, save].forEach((element, number) => element.classList.toggle("here", number === here));
  };
  const open = () => groups.findIndex((group) => !group.querySelector(":checked"));
  if (groups.length) mark(Math.max(open(), 0));

  groups.forEach((group, number) => {
    group.addEventListener("focusin", () => mark(number));
    // After a click the arrow keys move between answers again, not within this group.
    group.addEventListener("click", (event) => event.detail && event.target.matches("input") && mark(number + 1));
    group.addEventListener("pointerup", () => setTimeout(() => document.activeElement.matches("[type=radio]") && document.activeElement.blur()));
  });

  // The browser's own bubble would name no dimension.
  form.addEventListener("invalid", (event) => {
    event.preventDefault();
    const missing = groups.filter((group) => !group.querySelector(":checked"));
    groups.forEach((group) => group.classList.toggle("missing", missing.includes(group)));
    const names = missing.map((group) => group.querySelector("legend").textContent)
      .join(document.documentElement.lang.startsWith("zh") ? "、" : ", ");
    refusal.textContent = form.dataset.missing.replace("{names}", names);
    missing[0].querySelector("input").focus();
  }, true);

  const digit = (event) => /^[0-9]$/.test(event.key) ? event.key : (/^(?:Digit|Numpad)([0-9])$/.exec(event.code) || [])[1];

  const choose = (value) => {
    const group = groups[here];
    if (!group) return;
    const radio = group.querySelector(`[value="${value}"]`);
    if (!radio) return void (refusal.textContent = group.dataset.refusal);
    const inside = group.contains(document.activeElement);
    radio.checked = true;
    group.classList.remove("missing");
    refusal.textContent = "";
    mark(here + 1);
    (groups[here] || save).scrollIntoView({ block: "nearest" });
    if (inside) (groups[here] ? groups[here].querySelector(":checked, input") : save).focus();
  };

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target === comment) return void (event.key === "Escape" && comment.blur());
    if (event.repeat || sent) return;
    const number = digit(event);
    const radio = event.target.matches("[type=radio]");
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const link = form.querySelector(`a[data-key="${CSS.escape(key)}"]`);
    if (number !== undefined && groups.length) {
      choose(number);
    } else if (number !== undefined) {
      const button = form.querySelector(`.scores [value="${number}"]`);
      if (button) form.requestSubmit(button);
    } else if (key === "Backspace" && groups.length) {
      mark(here - 1);
      if (radio) groups[here].querySelector(":checked, input").focus();
    } else if (key === "Enter" && groups.length && (event.target === document.body || radio)) {
      if (open() >= 0) mark(open());
      form.requestSubmit(save);
    } else if (key === "c") {
      comment.focus();
    } else if (link && !(radio && key.startsWith("Arrow"))) {
      link.click();
    } else {
      return;
    }
    event.preventDefault();
  });
}
