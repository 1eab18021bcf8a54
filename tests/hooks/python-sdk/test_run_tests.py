"""What `make native` runs."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path


class RunTestsTest(unittest.TestCase):
    """`make native` must not be green where nothing was tested."""

    def result_of(self, *files):
        with tempfile.TemporaryDirectory() as directory:
            names = [f"test_{number}.py" for number in range(len(files))]
            for name, text in zip(names, files):
                Path(directory, name).write_text(text, encoding="utf-8")
            sdk = str(Path("sdk").resolve())
            command = [sys.executable, "-m", "virt_hook.run_tests", *names]
            done = subprocess.run(command, cwd=directory, env={"PYTHONPATH": sdk}, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def test_only_tests_that_run_are_accepted(self):
        case = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue({})\n"
        function = "def test_of_pytest():\n    assert False\n"
        code, printed = self.result_of(case.format(True), case.format(True))
        self.assertEqual((code, "Ran 2 tests" in printed), (0, True), printed)
        for files, expected in [
            ((case.format(True), ""), "test_1.py: it has no test"),
            ((function,), "test_0.py: test_of_pytest is a function"),
            ((case.format(True) + function,), "test_0.py: test_of_pytest is a function"),
            ((case.format(False),), "FAILED (failures=1)"),
            (("import no_such_module\n",), "no_such_module"),
        ]:
            code, printed = self.result_of(*files)
            self.assertEqual((code, expected in printed), (1, True), printed)


if __name__ == "__main__":
    unittest.main()
