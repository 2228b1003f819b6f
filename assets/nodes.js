/* Nodes: a row of the table that is chosen is the node that is shown; the address's node is chosen when the table comes. */
(function () {
  "use strict";
  var no = function () { return window.dash_clientside.no_update; };
  /* Set beside the callback: who waits for the chosen node need not wait for the table. */
  function picked(rows, selected, node) {
    var by = (window.dash_clientside.callback_context.triggered || []).map(function (one) { return one.prop_id; });
    if (by.indexOf("nodes-table.selectedRows") >= 0 && Array.isArray(selected) && selected.length) {
      if (selected[0].node !== node) { window.dash_clientside.set_props("nodes-node", { data: selected[0].node }); }
      return no();
    }
    var known = (rows || []).some(function (row) { return row.node === node; });
    var none = !selected || (Array.isArray(selected) && !selected.length);
    return known && none ? { ids: [String(node)] } : no();
  }
  /* A node's share of its budget, as a bar behind the figure. */
  window.dashAgGridFunctions = window.dashAgGridFunctions || {};
  window.dashAgGridFunctions.nodeShare = function (params) {
    var share = params.value;
    if (share === null || share === undefined) { return { background: "none" }; }
    var tint = share > 0.85 ? "var(--near-s)" : "var(--mem-s)";
    return { background: "linear-gradient(90deg, " + tint + " " + Math.min(100, 100 * share) + "%, transparent 0)" };
  };
  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.spillway = Object.assign({}, window.dash_clientside.spillway, { nodesPicked: picked });
})();
