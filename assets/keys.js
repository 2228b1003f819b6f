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
  function click(id, event) {
    var found = document.getElementById(id);
    if (found) { event.preventDefault(); found.click(); }
  }
  window.spillwayKeys = {
    off: off,
    set: function (on) { try { localStorage.setItem("spillway.keys", on ? "on" : "off"); } catch (e) { /* for this page only */ } },
  };
})();
