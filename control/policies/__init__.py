"""Policies: pure functions from a snapshot to a plan. One file each; registry.py names them.

`decide(snapshot, limits) -> Plan` reads no clock and draws nothing: time is in the snapshot, seeds are
parameters. Whether a plan may be carried out is the arbiter's to say, not theirs.
"""
