"""Tests of control/: properties first, then tables and worked examples. No Spark."""
