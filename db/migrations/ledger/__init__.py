"""Versions of ledger.db, oldest first; each stands by itself and knows nothing of today's tables."""
