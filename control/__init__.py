"""Decisions: what to spill, clean up and move, when, and why. Frozen values in, frozen values out.

Nothing here reads a clock, draws without a seed, touches a file or knows the engine.
"""
