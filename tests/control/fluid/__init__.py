"""A fluid simulator to compare policies on: rows flow into groups, none are joined. Seeded, no clock.

world.py is the physics, workloads.py what arrives, run.py a whole run with a policy and the arbiter.
"""
