"""What pages are put together from: small pieces of layout, numbers as people read them, charts as dicts."""
