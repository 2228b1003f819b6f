"""The command line called in this process: what it says and its exit code, in milliseconds instead of the second of a process.

Queries that it runs use the test's own Spark session, where there is one.
"""

from __future__ import annotations

import contextlib
import io
import subprocess

from run import main


def inside(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`run.py ARGUMENTS…`; stdout and stderr as strings."""
    command = [str(argument) for argument in arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as ended:  # argparse, about a wrong command line
            code = ended.code if isinstance(ended.code, int) else 2
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())
