#!/usr/bin/python3
"""End-to-end tests of the daemon: usage run.py BINARY [SUITE...].

The last line is "http: N passed, N failed". A daemon that does not end cleanly (a leak or a race
that a sanitizer found, a signal, a hang) is a failure of its own.
"""

import os
import signal
import sys
import unittest

sys.dont_write_bytecode = True
import client  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


class Result(unittest.TextTestResult):
    """Counts what passed: a test with failed sub-tests, or one whose set-up failed, did not."""

    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def load(names):
    """The suites by name; every test_*.py when none is named."""
    loader = unittest.defaultTestLoader
    return loader.loadTestsFromNames(names) if names else loader.discover(HERE)


def main(path, names):
    """Run the suites, stop what is left, and say how it went."""
    client.binary = os.path.abspath(path)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # an interrupt: clean up
    try:
        runner = unittest.TextTestRunner(stream=sys.stdout, verbosity=2, resultclass=Result)
        result = runner.run(load(names))
    finally:
        complaints = client.stop_all()
    for complaint in complaints:
        print(complaint)
    failed = len(result.failures) + len(result.errors) + len(complaints)
    print(f"http: {result.passed} passed, {failed} failed")
    return 1 if failed or not result.passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(sys.argv[1], sys.argv[2:]))
