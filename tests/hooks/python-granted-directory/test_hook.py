"""Runs natively: make native."""

import tempfile
import unittest
from pathlib import Path
from unittest.mock import patch

from hook import Team
from virt_hook.testing import call


class TeamTest(unittest.TestCase):
    def test_the_team_is_in_the_file_of_the_namespace(self):
        with tempfile.TemporaryDirectory() as directory, patch("hook.TEAMS", Path(directory)):
            Path(directory, "shop").write_text("storage\n")
            domain = call(Team).on_define_domain({"metadata": {"namespace": "shop"}}, "<domain/>")
        self.assertEqual(domain, "<domain><title>storage</title></domain>")


if __name__ == "__main__":
    unittest.main()
