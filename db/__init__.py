"""The store: two SQLite files behind control/ports.py. Nothing outside knows that it is SQLite."""
