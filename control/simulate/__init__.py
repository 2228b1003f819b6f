"""A small simulator of memory, rates and results: good enough to compare policies, seeded, no clock.

world.py is the physics, workloads.py what arrives, run.py a whole run with a policy and the arbiter.
"""
