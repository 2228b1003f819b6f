"""The plan: a small immutable tree of operators, and where their groups live."""
