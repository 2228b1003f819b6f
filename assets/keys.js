/* Keys: ? help, g and a letter a page, / the page's filter. They can be switched off (localStorage spillway.keys = off). */
(function () {
  "use strict";
  var waiting = 0;
  function off() {
    try { return localStorage.getItem("spillway.keys") === "off"; } catch (e) { return false; }
  }
  function typing(target) {
    return !!target.closest("input, textarea, select, [contenteditable=true], [role=combobox]");
  }
  document.addEventListener("keydown", function (event) {
    if (off() || event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) { return; }
    var key = event.key;
    if (Date.now() - waiting < 1500) {
      waiting = 0;
      var link = document.querySelector('[data-go="' + CSS.escape(key) + '"] a');
      if (link) { event.preventDefault(); link.click(); }
      return;
    }
    if (key === "g") { waiting = Date.now(); return; }
    if (key === "?") { click("help-open", event); }
    if (key === "/") {
      var filter = document.querySelector("[data-filter] input, input[data-filter]");
      if (filter) { event.preventDefault(); filter.focus(); }
    }
  });
  /* What opens beside its mark closes when somebody looks elsewhere, and turns round at the window's edge. */
  function others(kept) {
    document.querySelectorAll("details.pop[open]").forEach(function (one) { if (one !== kept) { one.removeAttribute("open"); } });
  }
  document.addEventListener("click", function (event) { others(event.target.closest("details.pop")); });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape") { return; }
    var open = document.querySelector("details.pop[open]");
    if (open) { others(null); open.querySelector("summary").focus(); }
  });
  document.addEventListener("toggle", function (event) {
    var pop = event.target;
    if (!pop.matches || !pop.matches("details.pop") || !pop.open) { return; }
    others(pop);
    pop.removeAttribute("data-side");
    var box = pop.lastElementChild.getBoundingClientRect();
    if (box.right > window.innerWidth - 8) { pop.setAttribute("data-side", "left"); }
    else if (box.bottom > window.innerHeight - 8 && box.top > box.height + 40) { pop.setAttribute("data-side", "up"); }
  }, true);
  function click(id, event) {
    var found = document.getElementById(id);
    if (found) { event.preventDefault(); found.click(); }
  }
  window.spillwayKeys = {
    off: off,
    set: function (on) { try { localStorage.setItem("spillway.keys", on ? "on" : "off"); } catch (e) { /* for this page only */ } },
  };
})();
