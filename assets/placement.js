/* Placement's picture: a row of tiles for each node and a strip by group id, drawn on canvases from the packed columns
   that app/pages/placement_data.py makes; clicks, boxes and keys become the `placement-selected` store. */
(function () {
  "use strict";
  var MEMORY = 1, DISK = 2, FLIGHT = 4, MATCH = 8;
  var COLOURS = ["heat-0", "heat-1", "heat-2", "heat-3", "heat-4", "heat-5", "heat-6", "disk", "disk-s", "held", "accent",
    "accent-soft", "bg-surface", "text", "text-2", "text-3", "line", "line-strong", "n-3", "n-4", "n-6", "mem"];
  var PITCHES = [18, 16, 14, 12, 10, 8, 7, 6, 5, 4];
  var S = { data: null, order: "value", shape: "tiles", chosen: new Set(), anchor: -1, cursor: -1, hover: -1, bands: [], drops: [] };
  var paint = null;

  /* -- the picture's columns -- */
  function bytes(text) {
    var raw = atob(text), made = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { made[i] = raw.charCodeAt(i); }
    return made;
  }
  function opened(raw) {
    var two = bytes(raw.node);
    var d = { raw: raw, n: raw.groups, node: new Uint16Array(two.buffer, 0, two.length / 2), value: bytes(raw.value),
      size: bytes(raw.size), flags: bytes(raw.flags), ids: raw.ids, at: null };
    if (raw.ids) { d.at = new Map(raw.ids.map(function (id, i) { return [id, i]; })); }
    return d;
  }
  function idOf(i) { return S.data.ids ? S.data.ids[i] : i; }
  function indexOf(id) {
    if (S.data.at) { return S.data.at.has(id) ? S.data.at.get(id) : -1; }
    return id >= 0 && id < S.data.n ? id : -1;
  }
  function meant(b, scale) {
    if (!b) { return 0; }
    var share = (b - 1) / 254;
    return scale.log ? scale.low * Math.pow(scale.high / scale.low, share) : scale.low + (scale.high - scale.low) * share;
  }
  function figure(v) {
    if (v >= 1e6) { return (v / 1e6).toPrecision(2) + " M"; }
    if (v >= 1e4) { return (v / 1e3).toPrecision(2) + " k"; }
    return v >= 100 ? String(Math.round(v)) : v >= 1 ? v.toFixed(1) : v.toPrecision(2);
  }
  function onDisk(i) { return (S.data.flags[i] & (MEMORY | DISK)) === DISK; }

  /* Neighbours in value share a level of four, so that tiles do not change places with every tick. */
  function ordered(node) {
    var mine = [], f = S.data.flags, v = S.data.value;
    for (var i = 0; i < S.data.n; i++) { if (S.data.node[i] === node) { mine.push(i); } }
    mine.sort(function (a, b) {
      var tier = onDisk(a) - onDisk(b);
      if (tier) { return tier; }
      if (S.order === "value") {
        var step = (f[b] >> 4) - (f[a] >> 4) || (v[b] >> 2) - (v[a] >> 2);
        if (step) { return step; }
      }
      return a - b;
    });
    return mine;
  }

  /* -- colours: tokens as the browser resolves them for this theme -- */
  function tints(box) {
    var probe = document.createElement("i"), made = {};
    box.appendChild(probe);
    COLOURS.forEach(function (name) {
      probe.style.color = "var(--" + name + ")";
      made[name] = getComputedStyle(probe).color;
    });
    box.removeChild(probe);
    var ratio = window.devicePixelRatio || 1;
    made.hatch = hatch(made.disk, ratio);
    made.hatchOver = hatch(made["bg-surface"], ratio);
    return made;
  }
  function hatch(tint, ratio) {
    var size = Math.round(4 * ratio), c = document.createElement("canvas");
    c.width = c.height = size;
    var x = c.getContext("2d");
    x.strokeStyle = tint; x.lineWidth = 1.1 * ratio;
    for (var k = -1; k <= 1; k++) { x.beginPath(); x.moveTo(k * size - 1, size + 1); x.lineTo((k + 1) * size + 1, -1); x.stroke(); }
    var pattern = x.createPattern(c, "repeat");
    pattern.setTransform(new DOMMatrix().scale(1 / ratio));
    return pattern;
  }
  function sized(canvas, wide, high) {
    var ratio = window.devicePixelRatio || 1, x = canvas.getContext("2d");
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      canvas.width = Math.round(wide * ratio); canvas.height = Math.round(high * ratio);
      canvas.style.height = high + "px";
    }
    x.setTransform(ratio, 0, 0, ratio, 0, 0);
    x.clearRect(0, 0, wide, high);
    return x;
  }

  /* -- layout: where each tile of a node is -- */
  function ghosts(node) {
    var found = [];
    (S.data.raw.moving || []).forEach(function (m) {
      if (m.to === node) { m.groups.forEach(function (g) { found.push({ id: g, kind: "ghost" }); }); }
    });
    S.drops.forEach(function (m) {
      if (m.node === node) { m.groups.forEach(function (g) { found.push({ id: g, kind: "drop" }); }); }
    });
    return found;
  }
  function pitch(wide) {
    var most = 1, lines = S.bands.length > 12 ? 1 : wide < 420 ? 5 : 2;
    S.bands.forEach(function (b) { most = Math.max(most, b.tiles.length + b.ghosts.length); });
    for (var k = 0; k < PITCHES.length; k++) {
      if (Math.ceil(most / Math.floor(wide / PITCHES[k])) <= lines) { return PITCHES[k]; }
    }
    return PITCHES[PITCHES.length - 1];
  }
  function tiled(band, wide, step) {
    var across = Math.max(1, Math.floor(wide / step)), side = step - (step > 6 ? 2 : 1), spots = [], k = 0;
    var dense = S.bands.length > 12, rise = dense ? Math.max(step, 14) : step, tall = dense ? rise - 2 : side;
    function put(i, ghost) {
      spots.push({ i: i, ghost: ghost, x: (k % across) * step, y: Math.floor(k / across) * rise, w: side, h: tall });
      k++;
    }
    band.tiles.forEach(function (i) { if (!onDisk(i)) { put(i, null); } });
    band.ghosts.forEach(function (g) { put(-1, g.kind); });
    band.tiles.forEach(function (i) { if (onDisk(i)) { put(i, null); } });
    band.high = Math.max(1, Math.ceil(k / across)) * rise;
    band.spots = spots;
  }
  function scaled(band, wide, tall) {
    var about = S.data.raw.nodes[band.n], sum = 0, spots = [], x = 0, sizes = S.data.raw.sizes;
    band.tiles.forEach(function (i) { if (!onDisk(i)) { sum += meant(S.data.size[i], sizes); } });
    var each = sum > 0 ? about.fill * wide / sum : 0;
    band.tiles.forEach(function (i) {
      if (onDisk(i)) { return; }
      var w = meant(S.data.size[i], sizes) * each;
      spots.push({ i: i, x: x, y: 0, w: Math.max(w - (w > 3 ? 1 : 0), 0.5), h: tall });
      x += w;
    });
    band.other = about.other ? { x: x, w: about.other * wide } : null;
    band.limit = about.budget === null ? null : about.budget / 100 * wide;
    x = 0;
    var any = false;
    band.tiles.forEach(function (i) {
      if (!onDisk(i)) { return; }
      var w = meant(S.data.size[i], sizes) / S.data.raw.full * wide;
      spots.push({ i: i, x: x, y: tall + 3, w: Math.max(w - (w > 3 ? 1 : 0), 0.5), h: 8 });
      x += w; any = true;
    });
    band.high = tall + (any ? 11 : 0);
    band.spots = spots;
  }

  /* -- drawing -- */
  function tile(x, s) {
    if (s.ghost) { return dashed(x, s, s.ghost === "drop"); }
    var f = S.data.flags[s.i], heat = f >> 4;
    x.globalAlpha = f & MATCH ? 1 : 0.22;
    if (f & MEMORY || !(f & DISK)) {
      x.fillStyle = paint["heat-" + heat];
      rounded(x, s); x.fill();
      if (heat === 0 && s.w > 4) { edge(x, s, paint["line-strong"], 1, 0.5); }
      if (f & DISK && s.w > 2) { x.fillStyle = paint.hatchOver; rounded(x, s); x.fill(); }
    } else {
      x.fillStyle = paint["disk-s"]; rounded(x, s); x.fill();
      x.fillStyle = paint.hatch; rounded(x, s); x.fill();
      if (s.w > 4) { edge(x, s, paint.disk, 1, 0.5); }
    }
    x.globalAlpha = 1;
    if (f & FLIGHT) { edge(x, s, paint.held, 2, 0); }
    if (S.chosen.has(idOf(s.i))) { edge(x, s, paint.accent, 2, 0); if (s.w > 8) { edge(x, s, paint["bg-surface"], 1, 1.5); } }
    if (s.i === S.hover || s.i === S.cursor) { edge(x, s, paint.text, 1.5, -0.5); }
  }
  function rounded(x, s) {
    x.beginPath();
    if (s.w >= 6 && x.roundRect) { x.roundRect(s.x, s.y, s.w, s.h, 2); } else { x.rect(s.x, s.y, s.w, s.h); }
  }
  function edge(x, s, tint, line, inset) {
    x.strokeStyle = tint; x.lineWidth = line;
    x.strokeRect(s.x + inset + line / 2 - 0.5 * (line > 1), s.y + inset + line / 2 - 0.5 * (line > 1),
      Math.max(0.5, s.w - 2 * inset - line + (line > 1)), Math.max(0.5, s.h - 2 * inset - line + (line > 1)));
  }
  function dashed(x, s, drop) {
    if (drop) { x.fillStyle = paint["accent-soft"]; rounded(x, s); x.fill(); }
    x.setLineDash([3, 2]);
    edge(x, s, drop ? paint.accent : paint.held, 1, 0.5);
    x.setLineDash([]);
  }
  function drawBand(band) {
    var wide = band.canvas.clientWidth, x = sized(band.canvas, wide, band.high);
    if (S.shape === "scale") {
      if (band.other) { x.fillStyle = paint["n-4"]; x.fillRect(band.other.x, 0, band.other.w, band.tall); }
      band.spots.forEach(function (s) { tile(x, s); });
      if (band.limit !== null) { x.fillStyle = paint.text; x.fillRect(band.limit - 1, 0, 2, band.high); }
      return;
    }
    band.spots.forEach(function (s) { tile(x, s); });
  }
  function draw() {
    var box = document.getElementById("placement-map");
    if (!box || !S.data) { return; }
    box.dataset.shape = S.shape;
    paint = paint || tints(box);
    built(box);
    if (!S.bands.length) { return; }
    var wide = S.bands[0].canvas.clientWidth;
    if (wide < 20) { return; }
    var step = S.shape === "tiles" ? pitch(wide) : 0, tall = S.bands.length > 12 ? 10 : 18;
    S.bands.forEach(function (b) {
      b.tall = tall;
      if (step) { tiled(b, wide, step); } else { scaled(b, wide, tall); }
      drawBand(b);
    });
    strip();
  }
  var asked = 0;
  function soon() { if (!asked) { asked = requestAnimationFrame(function () { asked = 0; draw(); }); } }

  /* -- the rows: made once for each set of nodes, then only told what changed -- */
  function made(tag, name, into) {
    var e = document.createElement(tag);
    e.className = name; into.appendChild(e);
    return e;
  }
  function built(box) {
    var nodes = S.data.raw.nodes;
    if (S.bands.length !== nodes.length || !box.contains(S.bands[0].root)) {
      box.textContent = "";
      box.classList.toggle("dense", nodes.length > 12);
      S.bands = nodes.map(function (about) { return row(box, about); });
    }
    S.bands.forEach(function (b, k) { tell(b, nodes[k]); b.tiles = ordered(b.n); b.ghosts = ghosts(b.n); });
  }
  function row(box, about) {
    var root = made("div", "pl-band", box), side = made("div", "pl-l", root), top = made("div", "pl-top", side);
    var b = { n: about.n, root: root, name: made("button", "pl-node", top), groups: made("span", "k", top) };
    var bar = made("div", "mbar", made("div", "bars thin", side));
    b.mem = made("i", "seg mem", bar); b.near = made("i", "seg near", bar); b.held = made("i", "seg held", bar);
    b.limitBar = made("i", "budget", bar);
    var line = made("div", "pl-n", side);
    b.used = made("span", "n", line); b.of = made("span", "u", line); b.share = made("span", "pl-p", line);
    b.canvas = made("canvas", "pl-c", root);
    b.canvas.setAttribute("aria-hidden", "true");
    b.name.type = "button";
    b.name.addEventListener("click", function (event) { whole(b.n, event.ctrlKey || event.metaKey || event.shiftKey); });
    return b;
  }
  function put(e, text) { if (e.textContent !== text) { e.textContent = text; } }
  function tell(b, about) {
    put(b.name, about.name); put(b.groups, about.groups); put(b.used, about.used); put(b.of, about.of);
    put(b.share, about.tone === "gone" ? "not alive" : about.share);
    b.name.title = "Select all groups of " + about.name;
    b.root.className = "pl-band " + about.tone + (S.drops.some(function (d) { return d.node === b.n; }) ? " dst" : "");
    b.mem.style.width = Math.min(about.memory, about.near) + "%";
    b.near.style.width = Math.max(0, about.memory - about.near) + "%";
    b.held.style.width = about.held + "%";
    b.limitBar.style.display = about.budget === null ? "none" : "";
    b.limitBar.style.left = about.budget + "%";
  }

  /* -- by group id: a column is a group, a move a vertical step -- */
  var EDGE = 34;
  function strip() {
    var canvas = document.getElementById("placement-ids");
    if (!canvas || !canvas.clientWidth) { return; }
    var count = S.bands.length, high = Math.max(96, Math.min(300, count * 14)), each = high / count, wide = canvas.clientWidth;
    var x = sized(canvas, wide, high + 16), span = wide - EDGE - 6, col = span / S.data.n, w = Math.max(1, Math.min(col - (col > 3 ? 0.8 : 0), 8));
    S.strip = { col: col, each: each, high: high };
    x.font = "10px Inter, system-ui, sans-serif"; x.fillStyle = paint["text-3"]; x.textBaseline = "middle"; x.textAlign = "right";
    var skip = Math.ceil(12 / each);
    for (var n = 0; n < count; n += skip) { x.fillText(S.data.raw.nodes[n].name, EDGE - 8, Math.max(6, (n + 0.5) * each)); }
    function bar(i, node, tint, grow) {
      x.fillStyle = tint;
      x.fillRect(EDGE + i * col - grow, node * each + (each > 5 ? 1 : 0) - grow / 2, w + 2 * grow, each - (each > 5 ? 2 : 0) + grow);
    }
    for (var heat = 0; heat < 7; heat++) {
      for (var i = 0; i < S.data.n; i++) {
        if (S.data.flags[i] >> 4 !== heat) { continue; }
        x.globalAlpha = S.data.flags[i] & MATCH ? 1 : 0.22;
        bar(i, S.data.node[i], onDisk(i) ? paint["n-6"] : paint["heat-" + heat], 0);
      }
    }
    x.globalAlpha = 1;
    function step(id, to, tint) {
      var i = indexOf(id), from = i < 0 ? -1 : S.data.node[i];
      if (from < 0) { return; }
      bar(i, from, tint, 1);
      if (to === null || to === from) { return; }
      x.strokeStyle = tint; x.lineWidth = 1;
      var at = EDGE + i * col + w / 2, a = (Math.min(from, to) + 1) * each - 1, z = Math.max(from, to) * each + 1;
      x.beginPath(); x.moveTo(at, a); x.lineTo(at, z); x.stroke();
      x.strokeRect(EDGE + i * col - 1, to * each + 1.5, w + 2, each - 3);
    }
    (S.data.raw.moving || []).forEach(function (m) { m.groups.forEach(function (g) { step(g, m.to, paint.held); }); });
    var to = new Map();
    S.drops.forEach(function (d) { d.groups.forEach(function (g) { to.set(g, d.node); }); });
    S.chosen.forEach(function (g) { step(g, to.has(g) ? to.get(g) : null, paint.accent); });
    to.forEach(function (node, g) { if (!S.chosen.has(g)) { step(g, node, paint.accent); } });
    ticks(x, wide, high, col);
  }
  function ticks(x, wide, high, col) {
    x.fillStyle = paint["text-3"]; x.textAlign = "center"; x.textBaseline = "alphabetic";
    var last = S.data.n - 1, every = Math.max(1, Math.pow(2, Math.ceil(Math.log2(60 / col))));
    for (var i = 0; i <= last; i += every) { if (i === 0 || i + every / 2 < last) { x.fillText(String(idOf(i)), EDGE + (i + 0.5) * col, high + 12); } }
    if (last > 0) { x.textAlign = "right"; x.fillText(String(idOf(last)), wide - 4, high + 12); }
  }

  /* -- selecting -- */
  function chosen() { return Array.from(S.chosen).sort(function (a, b) { return a - b; }); }
  function tellDash() {
    window.dash_clientside.set_props("placement-selected", { data: { operator: S.data.raw.operator, groups: chosen() } });
    soon();
  }
  function choose(ids, add) {
    if (!add) { S.chosen = new Set(); }
    ids.forEach(function (id) { S.chosen.add(id); });
    tellDash();
  }
  function toggle(id) { if (!S.chosen.delete(id)) { S.chosen.add(id); } tellDash(); }
  function whole(node, add) {
    var ids = [];
    for (var i = 0; i < S.data.n; i++) { if (S.data.node[i] === node && S.data.flags[i] & MATCH) { ids.push(idOf(i)); } }
    choose(ids, add);
  }
  function flat() {
    var all = [];
    S.bands.forEach(function (b) { b.spots.forEach(function (s) { if (s.i >= 0) { all.push(s.i); } }); });
    return all;
  }
  function spanned(a, b) {
    var all = flat(), i = all.indexOf(a), k = all.indexOf(b);
    return i < 0 || k < 0 ? [b] : all.slice(Math.min(i, k), Math.max(i, k) + 1);
  }
  function clicked(i, event) {
    if (event.shiftKey && S.anchor >= 0) { choose(spanned(S.anchor, i).map(idOf), event.ctrlKey || event.metaKey); }
    else if (event.ctrlKey || event.metaKey) { S.anchor = i; toggle(idOf(i)); }
    else {
      S.anchor = i;
      choose(S.chosen.size === 1 && S.chosen.has(idOf(i)) ? [] : [idOf(i)], false);
    }
  }
  function spotAt(px, py) {
    for (var k = 0; k < S.bands.length; k++) {
      var b = S.bands[k], box = b.canvas.getBoundingClientRect();
      if (py < box.top || py > box.bottom || px < box.left || px > box.right) { continue; }
      var x = px - box.left, y = py - box.top;
      for (var j = 0; j < b.spots.length; j++) {
        var s = b.spots[j];
        if (s.i >= 0 && x >= s.x - 0.5 && x <= s.x + s.w + 1 && y >= s.y - 0.5 && y <= s.y + s.h + 1) { return { i: s.i, spot: s, band: b, box: box }; }
      }
    }
    return null;
  }
  function within(r) {
    var ids = [];
    S.bands.forEach(function (b) {
      var box = b.canvas.getBoundingClientRect();
      b.spots.forEach(function (s) {
        if (s.i < 0 || !(S.data.flags[s.i] & MATCH)) { return; }
        var l = box.left + s.x, t = box.top + s.y;
        if (l + s.w > r.l && l < r.r && t + s.h > r.t && t < r.b) { ids.push(idOf(s.i)); }
      });
    });
    return ids;
  }

  /* -- pointer -- */
  var drag = null;
  function corners(event) {
    return { l: Math.min(drag.x, event.clientX), r: Math.max(drag.x, event.clientX), t: Math.min(drag.y, event.clientY), b: Math.max(drag.y, event.clientY) };
  }
  function boxed(r) {
    var box = document.getElementById("placement-box");
    box.style.display = r ? "block" : "none";
    if (r) { box.style.left = r.l + "px"; box.style.top = r.t + "px"; box.style.width = r.r - r.l + "px"; box.style.height = r.b - r.t + "px"; }
  }
  document.addEventListener("pointerdown", function (event) {
    var map = event.target.closest && event.target.closest("#placement-map, #placement-ids");
    if (!map || !S.data || event.button !== 0 || event.target.closest("button")) { return; }
    drag = { x: event.clientX, y: event.clientY, box: false, strip: map.id === "placement-ids", touch: event.pointerType === "touch" };
    if (!drag.touch) {
      var focus = document.getElementById("placement-map");
      event.preventDefault();
      focus.dataset.mouse = "1";
      focus.focus({ preventScroll: true });
    }
  });
  document.addEventListener("pointermove", function (event) {
    if (drag && !drag.touch) {
      drag.box = drag.box || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 5;
      if (drag.box) { boxed(corners(event)); hovered(null); }
      return;
    }
    if (event.target.closest && event.target.closest("#placement-map") && S.data) { hovered(spotAt(event.clientX, event.clientY)); }
    else if (S.hover >= 0) { hovered(null); }
  });
  document.addEventListener("pointerup", function (event) {
    if (!drag) { return; }
    var was = drag, r = corners(event), add = event.shiftKey || event.ctrlKey || event.metaKey;
    drag = null;
    boxed(null);
    if (was.strip) { columns(r, was.box, add); return; }
    if (was.box) { choose(within(r), add); return; }
    var spot = spotAt(event.clientX, event.clientY);
    if (spot) { clicked(spot.i, event); }
  });
  document.addEventListener("pointercancel", function () { drag = null; boxed(null); });
  function columns(r, box, add) {
    var at = document.getElementById("placement-ids").getBoundingClientRect(), col = S.strip.col, ids = [];
    var first = Math.floor((r.l - at.left - EDGE) / col), last = Math.floor((r.r - at.left - EDGE) / col);
    for (var i = Math.max(0, first); i <= Math.min(S.data.n - 1, last); i++) {
      var y = at.top + (S.data.node[i] + 0.5) * S.strip.each;
      if (!box || (y + S.strip.each / 2 > r.t && y - S.strip.each / 2 < r.b)) { ids.push(idOf(i)); }
    }
    choose(ids, add);
  }

  /* -- what a tile is, in words -- */
  function words(i) {
    var f = S.data.flags[i], raw = S.data.raw, tier = f & DISK ? (f & MEMORY ? "partly on disk" : "on disk") : "in memory";
    return ["g" + idOf(i) + " on " + raw.nodes[S.data.node[i]].name + ", " + tier + (f & FLIGHT ? ", in flight" : ""),
      "about " + figure(meant(S.data.value[i], raw.scale)) + " " + raw.scale.unit + ", " + figure(meant(S.data.size[i], raw.sizes)) + " MB"];
  }
  function hovered(found) {
    var tip = document.getElementById("placement-tip"), i = found ? found.i : -1;
    if (!tip || i === S.hover) { return; }
    S.hover = i;
    tip.style.display = found ? "block" : "none";
    if (found) {
      var text = words(i);
      put(tip.children[0], text[0]); put(tip.children[1], text[1]);
      var left = found.box.left + found.spot.x, most = window.innerWidth - tip.offsetWidth - 12;
      tip.style.left = Math.max(8, Math.min(left, most)) + "px";
      tip.style.top = found.box.top + found.spot.y + found.spot.h + 8 + "px";
    }
    S.bands.forEach(drawBand);
  }

  /* -- keys -- */
  function go(by, down) {
    var all = flat();
    if (!all.length) { return; }
    var k = all.indexOf(S.cursor);
    if (k < 0) { S.cursor = all[0]; }
    else if (!down) { S.cursor = all[Math.max(0, Math.min(all.length - 1, k + by))]; }
    else {
      var band = S.bands.findIndex(function (b) { return b.n === S.data.node[S.cursor]; });
      var place = S.bands[band].spots.filter(real).findIndex(function (s) { return s.i === S.cursor; });
      for (var j = band + by; j >= 0 && j < S.bands.length; j += by) {
        var spots = S.bands[j].spots.filter(real);
        if (spots.length) { S.cursor = spots[Math.min(place, spots.length - 1)].i; break; }
      }
    }
    S.bands.forEach(drawBand);
    put(document.getElementById("placement-say"), words(S.cursor).join(", ") + (S.chosen.has(idOf(S.cursor)) ? ", selected" : ""));
  }
  function real(s) { return s.i >= 0; }
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && S.data && S.chosen.size && document.getElementById("placement-map") && !event.target.closest("input, [role=combobox], [role=dialog]")) {
      choose([], false);
      return;
    }
    if (!event.target.closest || event.target.id !== "placement-map" || !S.data) { return; }
    delete event.target.dataset.mouse;
    var arrows = { ArrowRight: [1, false], ArrowLeft: [-1, false], ArrowDown: [1, true], ArrowUp: [-1, true] }, arrow = arrows[event.key];
    if (arrow) {
      event.preventDefault();
      if (event.shiftKey && S.cursor >= 0) { S.chosen.add(idOf(S.cursor)); }
      go(arrow[0], arrow[1]);
      if (event.shiftKey) { S.chosen.add(idOf(S.cursor)); tellDash(); }
    } else if ((event.key === " " || event.key === "Enter") && S.cursor >= 0) {
      event.preventDefault();
      S.anchor = S.cursor;
      toggle(idOf(S.cursor));
    }
  });

  window.addEventListener("resize", soon);
  document.addEventListener("spillway-theme", function () { paint = null; soon(); });

  /* Another operator or query: nothing is selected, but for what the URL said. */
  function begun(given, operator) {
    var fits = given && given.groups.length && (!given.operator || given.operator === operator);
    S.chosen = new Set(fits ? given.groups : []);
    S.anchor = S.cursor = S.hover = -1;
    if (given && given.operator !== operator) { tellDash(); }
  }

  /* Told that there is nothing (not: not told yet): the boxes that wait for it go. */
  function emptied(raw) {
    S.data = null; S.bands = [];
    var box = document.getElementById("placement-map"), canvas = document.getElementById("placement-ids");
    if (raw && box) { box.textContent = ""; }
    if (raw && canvas) { sized(canvas, canvas.clientWidth, 24); }
  }

  /* -- what Dash calls -- */
  var no = function () { return window.dash_clientside.no_update; };
  var frame = "";
  function picture(raw, drops, order, shape, given) {
    if (!raw || !raw.groups) { emptied(raw); return no(); }
    var same = S.data && S.data.raw.operator === raw.operator && S.data.raw.query === raw.query;
    S.data = opened(raw);
    S.drops = drops || [];
    S.order = order; S.shape = shape;
    if (!same) { begun(given, raw.operator); }
    var now = document.getElementById("frame");
    if (now && now.className !== frame) { frame = now.className; paint = null; }
    draw();
    return no();
  }
  /* The server or the URL says what is selected; what was chosen here is it already. */
  function selected(given) {
    if (!S.data || !given || given.operator !== S.data.raw.operator) { return no(); }
    S.chosen = new Set(given.groups);
    soon();
    return no();
  }
  function matches(clicks) {
    if (clicks && S.data) {
      var ids = [];
      for (var i = 0; i < S.data.n; i++) { if (S.data.flags[i] & MATCH) { ids.push(idOf(i)); } }
      choose(ids, false);
    }
    return no();
  }
  function doing(clicks) {
    var by = (window.dash_clientside.callback_context.triggered || [])[0];
    if (!by || !by.value) { return no(); }
    return JSON.parse(by.prop_id.slice(0, by.prop_id.lastIndexOf("."))).do;
  }
  function clear(clicks) { if (clicks && S.data) { choose([], false); } return no(); }

  /* The table's boxes follow the selection; the selection follows them only when somebody is using the table. A box that
     somebody has ticked is theirs however late the browser comes to it; of anything else in the table, only what follows at once. */
  var SOON_MS = 800, LATE_MS = 10000, used = 0, boxes = new Map();
  ["pointerdown", "keydown"].forEach(function (kind) {
    document.addEventListener(kind, function (event) {
      if (!event.target.closest || !event.target.closest("#placement-table")) { return; }
      used = Date.now();
      var row = event.target.closest("[row-id]");
      var ticks = kind === "keydown" ? event.key === " " : event.target.closest(".ag-checkbox-input-wrapper, .ag-selection-checkbox");
      if (row && ticks) { boxes.set(Number(row.getAttribute("row-id")), used); }
    }, true);
  });
  function ticked(given, rows, ticks_) {
    var want = new Set(given ? given.groups : []), shown = (rows || []).map(function (r) { return r.group; });
    var have = new Set((ticks_ && ticks_.ids ? ticks_.ids.map(Number) : (ticks_ || []).map(function (r) { return r.group; })));
    var differing = shown.filter(function (g) { return want.has(g) !== have.has(g); });
    if (!differing.length) { return no(); }
    var by = (window.dash_clientside.callback_context.triggered || []).map(function (one) { return one.prop_id; });
    var now = Date.now(), soon = by.indexOf("placement-table.selectedRows") >= 0 && now - used < SOON_MS;
    var theirs = differing.filter(function (g) { return soon || now - (boxes.get(g) || 0) < LATE_MS; });
    if (theirs.length) {
      theirs.forEach(function (g) { boxes.delete(g); if (have.has(g)) { S.chosen.add(g); } else { S.chosen.delete(g); } });
      tellDash();
      return no();
    }
    return { ids: shown.filter(function (g) { return want.has(g); }).map(String) };
  }

  /* What is looked at, in the URL beside what the frame keeps there. */
  function ranges(ids) {
    var out = [];
    for (var i = 0; i < ids.length; i++) {
      var from = ids[i];
      while (i + 1 < ids.length && ids[i + 1] === ids[i] + 1) { i++; }
      out.push(from === ids[i] ? String(from) : from + "-" + ids[i]);
    }
    return out.join(",");
  }
  function url(operator, colour, order, shape, filter, given) {
    if (location.pathname !== "/placement") { return no(); }
    var told = new URLSearchParams(location.search);
    function keep(name, value, plain) { if (value && value !== plain) { told.set(name, value); } else { told.delete(name); } }
    keep("operator", operator, S.data && S.data.raw.first);
    keep("colour", colour, "productivity"); keep("order", order, "value"); keep("shape", shape, "tiles"); keep("filter", filter, "");
    var text = given ? ranges(given.groups) : "";
    keep("groups", text.length <= 400 ? text : "", "");
    var search = told.toString(), path = location.pathname + (search ? "?" + search : "") + location.hash;
    if (path !== location.pathname + location.search + location.hash) { history.replaceState(history.state, "", path); }
    return no();
  }

  var ours = { placement: picture, placementSelected: selected, placementMatches: matches, placementClear: clear, placementDo: doing, placementTicked: ticked, placementUrl: url };
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.spillway = Object.assign({}, window.dash_clientside.spillway, ours);
})();
