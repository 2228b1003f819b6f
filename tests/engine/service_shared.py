"""What several tests of service need."""

from __future__ import annotations

FEED = """
name = "feed"
sql = "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k"
checkpoint = "state"

[streams.a]
format = "generator"
[streams.b]
format = "generator"

[sink]
format = "parquet"
path = "out"
"""
