"""Sources: every stream as a Spark streaming DataFrame, the generator among them."""
