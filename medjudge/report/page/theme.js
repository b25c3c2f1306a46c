// --- Light or dark --------------------------------------------------------------------------------------------------

const THEME = "medjudge-theme";

function prepareTheme() {
  const button = element("button", { type: "button", class: "theme" });
  let saved = null;
  try {
    saved = localStorage.getItem(THEME);
  } catch {
    // Kept for this visit only.
  }
  let dark = saved === null ? matchMedia("(prefers-color-scheme: dark)").matches : saved === "dark";
  const show = () => {
    button.textContent = dark ? t("Light theme") : t("Dark theme");
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  button.addEventListener("click", () => {
    dark = !dark;
    show();
    try {
      localStorage.setItem(THEME, dark ? "dark" : "light");
    } catch {
      // Kept for this visit only.
    }
  });
  show();
  document.querySelector("nav.main").append(button);
}
