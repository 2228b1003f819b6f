"""State: runs, segments, manifests, tiers and the commit log."""
