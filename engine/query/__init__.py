"""Query files: TOML and SQL in, a checked description of the query out. Nothing here starts Spark."""
