"""The Spark pipeline: query files in, exact join results out. No dash, no SQL store."""
