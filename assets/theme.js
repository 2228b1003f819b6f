/* Before anything is painted: the colour scheme that the user chose, or the system's. */
(function () {
  "use strict";
  var root = document.documentElement;
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function chosen() {
    try { return localStorage.getItem("spillway.theme") || "auto"; } catch (e) { return "auto"; }
  }
  function resolved() {
    var theme = chosen();
    return theme === "auto" ? (system.matches ? "dark" : "light") : theme;
  }
  function apply() {
    root.setAttribute("data-theme", resolved());
    document.dispatchEvent(new CustomEvent("spillway-theme"));
  }
  window.spillwayTheme = {
    chosen: chosen,
    resolved: resolved,
    choose: function (theme) {
      try { localStorage.setItem("spillway.theme", theme); } catch (e) { /* private mode: for this page only */ }
      apply();
    },
  };
  system.addEventListener("change", apply);
  apply();
})();
