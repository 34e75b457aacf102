// Sets the theme before the first paint, so it is a classic script in the head. "system" follows
// the operating system and sets no attribute.
(() => {
  const THEMES = ["system", "light", "dark"];
  const stored = () => {
    try { return localStorage.getItem("theme"); } catch { return null; }
  };
  const current = () => (THEMES.includes(stored()) ? stored() : "system");
  const apply = () => {
    if (current() === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = current();
  };
  window.theme = {
    current,
    next() {
      const theme = THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length];
      try { localStorage.setItem("theme", theme); } catch { /* The theme then lasts for this page only. */ }
      apply();
      dispatchEvent(new Event("themechange"));
    },
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));
  apply();
})();
