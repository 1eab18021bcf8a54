"""Runs tests: python3 -m virt_hook.run_tests test_*.py

As `python3 -m unittest`, but a file without a test is an error, and so is a function that only pytest would call.
"""

import sys
import unittest
from types import FunctionType


def problems_of(module, suite):
    """Why a file's tests are not all run."""
    functions = [
        name
        for name, member in vars(module).items()
        if name.startswith("test_") and isinstance(member, FunctionType) and member.__module__ == module.__name__
    ]
    if functions and not hasattr(module, "load_tests"):
        yield f"{functions[0]} is a function, which is never called: make it a method of a unittest.TestCase"
    elif suite.countTestCases() == 0:
        yield "it has no test: a test is a method test_... of a unittest.TestCase"


def main(files):
    suite, problems = unittest.TestSuite(), []
    for file in files:
        name = file.removesuffix(".py")
        tests = unittest.defaultTestLoader.loadTestsFromName(name)
        suite.addTest(tests)
        # A file that cannot be imported is a test that fails.
        if name in sys.modules:
            problems += [f"{file}: {problem}" for problem in problems_of(sys.modules[name], tests)]
    if problems:
        sys.exit("\n".join(problems))
    sys.exit(not unittest.TextTestRunner(verbosity=0).run(suite).wasSuccessful())


if __name__ == "__main__":
    main(sys.argv[1:])
