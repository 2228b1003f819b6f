"""Operators: pure functions over Arrow, testable without Spark."""
