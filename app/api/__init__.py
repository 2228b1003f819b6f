"""REST under /api/v1: one noun, one file. What there is is one table of routes (table.py, all.py)."""
