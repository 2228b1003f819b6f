"""The papers' experiments on this engine: `python run.py reproduce --list`, `python run.py reproduce fig11`.

`feed` makes an experiment's input, `lines` runs the query once for each line of a figure, a module for each paper says
which lines there are and what their shape must be, `page` writes table, plot and verdict.
"""
