/* What runs in the browser: what is looked at (URL ⇄ top bar ⇄ the `view` store), the age of what is shown, theme, keys.
   Called by app/components/shell.py as dash_clientside.spillway.<name>. */
(function () {
  "use strict";
  var RANGES = ["5m", "15m", "30m", "1h", "6h", "24h", "7d"];
  var REFRESH_MS = { "1s": 1000, "2s": 2000, "5s": 5000, "15s": 15000, "60s": 60000 };
  var nothing = function () { return window.dash_clientside.no_update; };

  function kept(name, value) {
    try {
      if (value !== undefined) { localStorage.setItem("spillway." + name, value); }
      return localStorage.getItem("spillway." + name);
    } catch (e) { return null; }
  }
  function triggers() {
    var found = window.dash_clientside.callback_context.triggered || [];
    return found.map(function (one) { return one.prop_id; });
  }
  function given(search, view) {
    var told = new URLSearchParams(search || "");
    if (told.get("query")) { view.query = told.get("query"); }
    if (RANGES.indexOf(told.get("range")) >= 0) { view.range = told.get("range"); }
    if (REFRESH_MS[told.get("refresh")]) { view.refresh = told.get("refresh"); }
    return view;
  }
  function inUrl(view) {
    var told = new URLSearchParams(location.search);
    function put(name, value, plain) { if (value && value !== plain) { told.set(name, value); } else { told.delete(name); } }
    put("query", view.query, "");
    put("range", view.range, "30m");
    put("refresh", view.refresh, "2s");
    var text = told.toString();
    var path = location.pathname + (text ? "?" + text : "") + location.hash;
    if (path !== location.pathname + location.search + location.hash) { history.replaceState(history.state, "", path); }
  }
  function begun(search) {
    var utc = kept("zone") !== "Local";
    return given(search, { query: "", range: "30m", refresh: "2s", paused: false, utc: utc });
  }

  function view(path, search, query, range, refresh, zone, pauses, theme, known, before) {
    var now = before ? Object.assign({}, before) : begun(search);
    triggers().forEach(function (one) {
      if (one === "url.search" && before) { given(search, now); }
      if (one === "tb-query.value" && query) { now.query = query; }
      if (one === "tb-range.value" && range) { now.range = range; }
      if (one === "tb-refresh.value" && refresh) { now.refresh = refresh; }
      if (one === "tb-zone.value" && zone) { now.utc = zone === "UTC"; kept("zone", zone); }
      if (one === "tb-pause.n_clicks" && pauses) { now.paused = !now.paused; }
    });
    now.theme = window.spillwayTheme.resolved();
    now.width = Math.round(window.innerWidth);
    now.zone_min = now.utc ? 0 : -new Date().getTimezoneOffset();
    inUrl(now);
    var names = known || [];
    var shown = now.query || names[0] || null;
    if (shown && names.indexOf(shown) < 0) { names = names.concat([shown]); }
    var same = before && JSON.stringify(before) === JSON.stringify(now);
    return [same ? nothing() : now, names, shown, now.range, now.refresh, now.utc ? "UTC" : "Local",
      REFRESH_MS[now.refresh], now.paused, String(now.paused), now.theme];
  }

  /* The top bar's own callback runs again when the window has another width. */
  var resized = 0;
  window.addEventListener("resize", function () {
    clearTimeout(resized);
    resized = setTimeout(function () { document.dispatchEvent(new CustomEvent("spillway-theme")); }, 300);
  });

  function here(path, ids) {
    var classes = ids.map(function (id) { return "/" + id.page === path ? "nv on" : "nv"; });
    requestAnimationFrame(function () {
      document.querySelectorAll(".nv").forEach(function (link) {
        if (link.getAttribute("href") === path) { link.setAttribute("aria-current", "page"); }
        else { link.removeAttribute("aria-current"); }
      });
    });
    return classes;
  }

  /* -- the age of what is shown, counted on between two answers -- */
  var last = null;
  var lost = false;
  function said(seconds) {
    if (seconds < 10) { return seconds.toFixed(1) + " s"; }
    if (seconds < 90) { return Math.round(seconds) + " s"; }
    if (seconds < 5400) { return Math.floor(seconds / 60) + " min " + String(Math.floor(seconds % 60)).padStart(2, "0") + " s"; }
    return Math.floor(seconds / 3600) + " h " + String(Math.floor(seconds % 3600 / 60)).padStart(2, "0") + " min";
  }
  function tell() {
    var box = document.getElementById("live");
    if (!box || !last) { return; }
    var age = last.age_s === null ? null : last.age_s + (performance.now() - last.at) / 1000;
    var mode = lost ? "lost" : last.paused ? "paused" : last.mode;
    var words = { live: "Live", stale: "Stale", lost: "No answer", paused: "Paused", none: "No data", still: "Not running" };
    box.dataset.mode = mode;
    box.querySelector(".live-word").textContent = words[mode] || mode;
    var old = box.querySelector(".live-age");
    old.textContent = age === null || mode === "none" ? "" : said(age) + (mode === "stale" || mode === "lost" ? "" : " ago");
  }
  setInterval(tell, 500);
  window.addEventListener("spillway-lost", function () { lost = true; tell(); });
  window.addEventListener("spillway-answered", function () { lost = false; });
  function live(beat, view) {
    if (beat) { last = { at: performance.now(), age_s: beat.age_s, mode: beat.mode, paused: !!(view && view.paused) }; tell(); }
    return nothing();
  }

  function theme(auto, light, dark) {
    triggers().forEach(function (one) {
      var found = /^theme-(auto|light|dark)\.n_clicks$/.exec(one);
      if (found && (auto || light || dark)) { window.spillwayTheme.choose(found[1]); }
    });
    return window.spillwayTheme.resolved();
  }
  document.addEventListener("spillway-theme", function () {
    if (window.dash_clientside && window.dash_clientside.set_props) {
      window.dash_clientside.set_props("theme", { data: window.spillwayTheme.resolved() });
    }
  });

  function keys(checked) {
    var first = keys.asked === undefined;
    keys.asked = true;
    if (first) { return !window.spillwayKeys.off(); }
    window.spillwayKeys.set(checked);
    return checked;
  }

  /* Signing out is a form of its own, as in the pages that work without scripts. */
  function out(clicks) {
    if (!clicks) { return nothing(); }
    var config = JSON.parse(document.getElementById("_dash-config").textContent);
    var token = (document.cookie.split("; ").find(function (one) { return one.indexOf(config.csrf_token_name + "=") === 0; }) || "=").split("=")[1];
    var form = document.createElement("form");
    form.method = "post";
    form.action = "/sign-out";
    var field = document.createElement("input");
    field.type = "hidden"; field.name = "csrf"; field.value = decodeURIComponent(token);
    form.appendChild(field);
    document.body.appendChild(form);
    form.submit();
    return nothing();
  }

  /* What was done without a panel to show it in. */
  function saved(told) {
    if (told && told.saved && told.proposal) { window.spillwayToast("Saved as a proposal; it waits under Actions until it lapses."); }
    return nothing();
  }
  function closed(opened) { return !opened; }
  function toggled(clicks, opened) { return clicks ? !opened : false; }

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    spillway: { view: view, here: here, live: live, theme: theme, keys: keys, out: out, closed: closed, saved: saved, toggled: toggled },
  });
})();
