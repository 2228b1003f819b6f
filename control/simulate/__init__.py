"""A small simulator of memory, rates and results: good enough to compare policies, seeded, no clock.

world.py is the physics, workloads.py what arrives, run.py a whole run with a policy and the arbiter. Apart from these,
tracks.py runs trees of window joins row by row, and migrate.py goes from one to another on a simulated processor.
"""
