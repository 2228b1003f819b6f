"""The benchmark: Spillway, Spark's own stream–stream join and a DuckDB batch join over the same files.

`make bench` runs it (tests/bench/__main__.py). A benchmark, never a timed test: what is tested is that all
sides give the same rows.
"""
