// --- The pages about several runs -----------------------------------------------------------------------------------

texts = JSON.parse(byId("texts").textContent);
prepareTheme();
prepareTables("main");
document.documentElement.dataset.ready = "yes";
