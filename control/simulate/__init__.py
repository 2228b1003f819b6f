"""Small simulators of memory, rates and results: seeded, no clock.

backtest.py has a rule decide over what was recorded, on replay.py and course.py. tracks.py runs trees of window joins row
by row, and migrate.py goes from one to another on a simulated processor.
"""
