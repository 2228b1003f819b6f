"""Memory adaptation: spilling, cleaning up and moving the groups' state while the query runs.

`overflow` is a node's own decision inside a tick; `edits` changes manifests; `tasks` is what side jobs do on
nodes; `courses` takes one action through its steps; `desk` has them all, between ticks.
"""
