// --- Views: one part of the page at a time, chosen by the address ---------------------------------------------------

const partsOfPage = [...document.querySelectorAll(".part")];

function prepareViews() {
  for (const panel of document.querySelectorAll(".panel")) addContents(panel);
  document.documentElement.classList.add("views");
}

/** Links to the headings of a panel, where it has several. */
function addContents(panel) {
  const headings = [...panel.querySelectorAll("h3, h4")].filter((one) => !one.closest("details"));
  if (headings.length < 3) return;
  const links = headings.map((heading, place) => {
    heading.id ||= `${panel.id}-${place}`;
    return element("a", { href: `#${heading.id}` }, heading.textContent.trim());
  });
  const before = panel.querySelector(".banner")?.nextElementSibling ?? panel.firstElementChild;
  before.before(element("nav", { class: "contents", "aria-label": t("On this page") }, ...links));
}

/** Shows a part, and of its panels the one that holds an element; else the first. */
function showPart(part, inside) {
  for (const one of partsOfPage) one.classList.toggle("open", one === part);
  const panels = [...part.querySelectorAll(":scope > .panel")];
  const panel = inside?.closest(".panel") ?? panels[0];
  for (const one of panels) one.classList.toggle("open", one === panel);
  for (const link of document.querySelectorAll("nav.main a, nav.sub a")) {
    const here = [part.id, panel?.id].includes(link.hash.slice(1));
    if (here) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

/** Shows what the address names: an answer, the answers with filters, a heading, or the leaderboard. */
async function follow() {
  const [place, query] = addressParts();
  if (place.startsWith("#answer/") || place === "#answers") {
    showPart(byId("answers"));
    await followFilters(query);
    await followAnswer(place);
    void readForSearch(); // ahead of the first key in the search field
    return;
  }
  const target = byId(place.slice(1)); // ids of headings hold nothing that an address would encode
  showPart(target?.closest(".part") ?? byId("leaderboard"), target);
  if (target?.matches(".part, .panel")) scrollTo(0, 0);
  else target?.scrollIntoView();
}

/** The address within the page, and what follows its question mark. */
function addressParts() {
  const [place, query] = location.hash.split("?", 2);
  return [place, query];
}

// --- Start ----------------------------------------------------------------------------------------------------------

async function start() {
  await readIndex();
  prepareTheme();
  prepareTables("#leaderboard, #validation");
  prepareViews();
  prepareAnswersFile();
  fillChoices();
  byId("reader").hidden = false;
  listen();
  await refresh();
  await follow();
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  const trouble = byId("trouble");
  trouble.textContent = t("The answers cannot be shown: {error}. A current browser is needed, and the whole file.", { error: error.message });
  trouble.hidden = false;
  document.documentElement.classList.remove("views");
});
