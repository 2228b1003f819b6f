"""How each file's tables came to be, by Alembic: ledger/ and metrics/, each a line of versions of its own."""
