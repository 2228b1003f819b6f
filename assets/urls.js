/* What a page is asked for, kept in its address: filters and what is opened. And links that are copied.
   Called as dash_clientside.spillway.<name>; ids are <page>-<name>, and <name> is the parameter. */
(function () {
  "use strict";
  var nothing = function () { return window.dash_clientside.no_update; };
  function name(id) { return id.slice(id.indexOf("-") + 1); }

  function write(told, push) {
    var text = told.toString();
    var path = location.pathname + (text ? "?" + text : "");
    if (path === location.pathname + location.search) { return; }
    if (push) { history.pushState(history.state, "", path); } else { history.replaceState(history.state, "", path); }
  }

  /* Values of controls, put into the address (none for what is empty or "all") and into a store as one value. */
  function asked() {
    var inputs = window.dash_clientside.callback_context.inputs_list;
    var told = new URLSearchParams(location.search);
    var value = {};
    Array.prototype.slice.call(arguments).forEach(function (one, at) {
      var key = name(inputs[at].id);
      var text = one === null || one === undefined || one === "all" ? "" : String(one);
      value[key] = text;
      if (text) { told.set(key, text); } else { told.delete(key); }
    });
    write(told, false);
    return value;
  }

  /* What is opened: a row that was chosen, or a drawer that was closed. The address gets an entry of its own, so
     that the browser's Back closes what was opened. */
  function opened(cell, rows, isOpen, now) {
    var context = window.dash_clientside.callback_context;
    var output = context.outputs_list[0].id;
    var key = output.slice(output.indexOf("-") + 1);
    var told = new URLSearchParams(location.search);
    var chosen = now || "";
    (context.triggered || []).forEach(function (one) {
      var id = "";
      if (/\.cellClicked$/.test(one.prop_id) && cell) { id = cell.rowId; }
      if (/\.selectedRows$/.test(one.prop_id) && rows && rows.length) { id = rows[0].id; }
      if (id) { chosen = String(id); }
      if (/\.opened$/.test(one.prop_id) && isOpen === false) { chosen = ""; }
    });
    if (chosen) { told.set(key, chosen); } else { told.delete(key); }
    write(told, !!chosen && chosen !== now);
    return [chosen === now ? nothing() : chosen, chosen !== "", chosen ? nothing() : []];
  }

  /* Back and Forward: what we put into the address ourselves, Dash does not know of. Boxes with data-kept name the
     store, the drawer and the parameter. */
  window.addEventListener("popstate", function () {
    var told = new URLSearchParams(location.search);
    document.querySelectorAll("[data-kept]").forEach(function (box) {
      var names = box.getAttribute("data-kept").split(" ");
      var value = told.get(names[2]);
      if (value) { window.dash_clientside.set_props(names[0], { data: value }); }
      window.dash_clientside.set_props(names[1], { opened: !!value });
    });
  });

  /* One of a list of buttons whose ids are {type: "<page>-pick", <key>: value}, or what was just made and says its
     <key>: the value, in the address too. */
  function picked(clicks, made, now) {
    var context = window.dash_clientside.callback_context;
    var output = context.outputs_list.id;
    var key = output.slice(output.indexOf("-") + 1);
    var id = context.triggered_id;
    var value = id && typeof id === "object" ? clicks.some(Boolean) && id[key] : made && made[key];
    if (!value || value === now) { return nothing(); }
    var told = new URLSearchParams(location.search);
    told.set(key, value);
    write(told, false);
    return value;
  }

  /* Buttons with data-copy: the address that they name. */
  document.addEventListener("click", function (event) {
    var button = event.target.closest && event.target.closest("[data-copy]");
    if (!button) { return; }
    var text = location.origin + button.getAttribute("data-copy");
    var done = function () {
      var box = document.getElementById("toast");
      if (!box) { return; }
      box.textContent = "Copied: " + text;
      box.setAttribute("data-on", "1");
      setTimeout(function () { box.removeAttribute("data-on"); }, 3000);
    };
    if (navigator.clipboard && window.isSecureContext) { navigator.clipboard.writeText(text).then(done); return; }
    var field = document.createElement("textarea");
    field.value = text;
    document.body.appendChild(field);
    field.select();
    document.execCommand("copy");
    field.remove();
    done();
  });

  /* A link in the proposal's panel leads to something that would open beneath it. */
  document.addEventListener("click", function (event) {
    if (event.target.closest && event.target.closest(".pv a[href]")) {
      window.dash_clientside.set_props("proposal", { opened: false });
    }
  });

  window.dash_clientside = Object.assign({}, window.dash_clientside);
  window.dash_clientside.spillway = Object.assign({}, window.dash_clientside.spillway, { asked: asked, opened: opened, picked: picked });
})();
