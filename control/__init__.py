"""Decisions: policies, arbiter, rules. No dash, pyspark or sqlalchemy. Empty until the engine can be adapted."""
