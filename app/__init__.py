"""The console process: API, sign-in, metrics endpoint, command-line client. It decides nothing and runs no SQL."""
