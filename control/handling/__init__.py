"""What the dispatcher's kinds do, one file for each noun."""
