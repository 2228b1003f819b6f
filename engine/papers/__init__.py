"""The papers' experiments on this engine: `python run.py reproduce --list`, `python run.py reproduce fig11`.

By ticks: `feed` makes an experiment's input, `lines` runs the query once for each line of a figure. By the clock, where
seconds of the machine stand beside seconds of event time: `paced` and `live` do the same, `ticks` says what each tick did,
`probe` what this machine is worth. A module for each paper says which lines there are and what their shape must be; `page`
and `drawn` write table, plot and verdict. What runs on a simulator instead is in `simulated`.
"""
