"""The console's pages, one noun one file. How to add one:

1. `app/pages/<noun>.py` with three things; nothing else needs to know of it (`pages/all.py` finds it):

       PAGE = Page("placement", "Placement", "grid-3x3", "p", order=20)   # path, name, icon, key after g, order

       def layout(**_: Any) -> Component:        # a skeleton without data: it is part of everybody's first page
           return d(panel("Groups by node", loading(200), id="placement-groups"))

       def register(on: Callbacks) -> None:      # callbacks, each with the least role that may call it
           on.callback(Role.VIEWER, Output("placement-groups", "children"), *POLLED, polls=True)(_groups)

   `**_` takes the URL's parameters (`?action=…`); ids begin with the page's name. `PAGE.role` above viewer
   shows everybody else why not. `count=lambda feed, query: …` puts a number beside its name in the navigation.
2. Reading: `POLLED` is `Input("poll", "n_intervals"), Input("view", "data")`; begin with `seen = look(view)`, which
   gives the query, its newest sample, how old it is, and `seen.view` (range, zone, theme). `feed()` reads what is
   shared by all watchers (what is dear there may be None: not yet); what only one asks for, from `parts().store`. One batched callback for each page with
   `polls=True`; return `no_update` for what has not changed (keep a `mark(values)` in a store). Charts are dicts
   (components.charts), live ones grow by Patch (components.live).
3. Acting: `answer = act(kind, body, query)`, nothing else; `answer.accepted` or say `answer.text` and refusals
   (components.reasons). Disabled buttons say why: `states.not_allowed(...)`. Buttons inside what is polled are
   drawn anew with it: send them only when they change. assets/fetch.js sees to it that being drawn is not taken for
   being clicked, assets/steady.js that clicks and focus are not lost with them: give them an id, or links an href. To show a plan before it is carried
   out, have a `dcc.Store(id={"type": "propose", "page": "<name>"})` on the page and return into it
   `{"proposal": answer.id}` or `refused(answer)`: the panel of components.proposal opens on every page.
4. Looks: components.kit (d, s, panel, chip, button, table …), components.states (empty, loading, failed,
   no_permission), components.grid for long tables, components.units for figures, components.help.mark for a
   metric's help (its text goes into components.metrics_help). CSS in `assets/<noun>.css` (add it to console.STYLES),
   classes short and led by the page's letters (`.pl-`, `.ac-`), tokens only; data that goes grey when it is
   old has the class `data` on or above it.
5. Tests: tests/app/test_console.py checks every callback's role, session and CSRF by itself; tests/browser/ has the
   page seen in Chromium.
"""
