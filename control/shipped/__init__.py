"""Rules that come with Spillway, as TOML; read by rules.py."""
