"""The store. Empty until reports have to outlive a terminal."""
