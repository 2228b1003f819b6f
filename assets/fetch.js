/* Dash's requests: what the server refuses, or cannot answer, is said in a banner and changes nothing on the page.
   A refused poll becomes "no update" (204), so that a page that is signed out keeps what it last showed. */
(function () {
  "use strict";
  var plain = window.fetch.bind(window);
  var PATH = "/_dash-update-component";

  function banner(kind, text) {
    var box = document.getElementById("banner");
    if (!box) { return; }
    if (!kind) { box.removeAttribute("data-on"); return; }
    box.setAttribute("data-on", kind);
    box.querySelector(".banner-text").textContent = text;
    box.querySelector(".banner-link").style.display = kind === "signed-out" ? "" : "none";
    box.querySelector(".banner-link").href = "/sign-in?next=" + encodeURIComponent(location.pathname + location.search);
  }
  function toast(text) {
    var box = document.getElementById("toast");
    if (!box) { return; }
    box.textContent = text;
    box.setAttribute("data-on", "1");
    clearTimeout(toast.timer);
    toast.timer = setTimeout(function () { box.removeAttribute("data-on"); }, 8000);
  }
  window.spillwayToast = toast;
  function nothing() { return new Response(null, { status: 204 }); }

  function refused(response) {
    return response.clone().json().catch(function () { return {}; }).then(function (problem) {
      var said = problem.detail || "The server answered with " + response.status + ".";
      if (response.status === 401) {
        banner("signed-out", "You are signed out. What you see is the last known state.");
      } else if (response.status === 403 && problem.type === "/api#csrf") {
        banner("signed-out", "You were signed out, or signed in anew elsewhere.");
      } else if (response.status === 503) {
        banner("unavailable", said);
      } else {
        toast(said);
      }
      return nothing();
    });
  }
  function lost() {
    banner("lost", "The console does not answer. What you see is the last known state.");
    window.dispatchEvent(new CustomEvent("spillway-lost"));
    return nothing();
  }

  /* Buttons that are drawn anew look to Dash like inputs that have changed. Nobody clicked: nobody is asked. */
  function nobodyClicked(told) {
    var changed = told.changedPropIds || [];
    var values = {};
    (told.inputs || []).forEach(function (input) {
      (Array.isArray(input) ? input : [input]).forEach(function (one) { values[name(one.id) + "." + one.property] = one.value; });
    });
    return changed.length > 0 && changed.every(function (id) { return /\.n_clicks$/.test(id) && !values[id]; });
  }
  function name(id) {
    if (typeof id === "string") { return id; }
    return JSON.stringify(id, Object.keys(id).sort());
  }

  /* Who asks again makes Dash forget the answer that is under way, as that of a press on a list that is just drawn anew.
     So "nothing new" to the second means that the first answer is the newest, and the second gets it. */
  var underWay = {};
  function newest(output, answer) {
    var before = underWay[output];
    var best = !before ? answer : answer.then(function (response) {
      return response.status === 204 ? before.then(function (first) { return first.clone(); }) : response;
    });
    var kept = best.then(function (response) { return response.clone(); });
    function over() { if (underWay[output] === kept) { delete underWay[output]; } }
    underWay[output] = kept;
    kept.then(over, over);
    return best;
  }
  function parsed(body) {
    try { return JSON.parse(body); } catch (e) { return {}; }
  }

  window.fetch = function (what, how) {
    var url = typeof what === "string" ? what : what && what.url;
    if (!url || url.indexOf(PATH) < 0) { return plain(what, how); }
    var told = how && typeof how.body === "string" ? parsed(how.body) : {};
    var answer = nobodyClicked(told) ? Promise.resolve(nothing()) : plain(what, how).then(function (response) {
      if (response.ok) {
        banner("");
        window.dispatchEvent(new CustomEvent("spillway-answered"));
        return window.spillwaySteady(response);
      }
      return refused(response);
    }, lost);
    return newest(told.output, answer);
  };
})();
