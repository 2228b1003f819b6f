/* What is drawn anew keeps clicks and the focus. A poll's answer may replace a button while it is pressed, or while the
   keyboard is on it; Dash puts new elements there. So answers wait while something is pressed, a press that was longer
   than that is carried over to what stands there now, and so is the focus. Elements are the same by id or by link. */
(function () {
  "use strict";
  var CLICKED = "a[href], button, [role=button], [role=tab], summary";
  var WAIT_MS = 1500;
  var pressed = null;
  var focused = null;
  var waiting = [];

  function same(old) {
    if (old.id) { return document.getElementById(old.id); }
    var link = old.tagName === "A" && old.getAttribute("href");
    if (!link) { return null; }
    return Array.from(document.links).find(function (one) { return one.getAttribute("href") === link; }) || null;
  }
  function release() {
    var go = waiting;
    waiting = [];
    go.forEach(function (one) { one(); });
  }

  /* For assets/fetch.js: fulfilled at once, or when nothing is pressed any more. */
  window.spillwaySteady = function (response) {
    if (!pressed) { return response; }
    return new Promise(function (resolve) {
      waiting.push(function () { resolve(response); });
      setTimeout(release, WAIT_MS);
    });
  };

  document.addEventListener("pointerdown", function (event) {
    pressed = event.button === 0 && event.target.closest ? event.target.closest(CLICKED) : null;
  }, true);
  document.addEventListener("pointerup", function (event) {
    var old = pressed;
    pressed = null;
    if (old && !old.isConnected) {
      var under = document.elementFromPoint(event.clientX, event.clientY);
      var now = same(old);
      if (now && under && now.contains(under) && !now.disabled) { now.click(); }
    }
    setTimeout(release, 0);
  }, true);
  document.addEventListener("pointercancel", function () { pressed = null; release(); }, true);

  document.addEventListener("focusin", function (event) { focused = event.target; });
  document.addEventListener("focusout", function (event) {
    if (event.target === focused && event.target.isConnected && event.relatedTarget) { focused = null; }
  });
  new MutationObserver(function () {
    if (!focused || focused.isConnected || document.activeElement !== document.body) { return; }
    var now = same(focused);
    if (now) { now.focus({ preventScroll: true }); }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
