"""The VMI as a hook in Python reads it."""

import json
import os
import unittest

from virt_hook import PathError, Vmi

LIST = os.path.join(os.path.dirname(__file__), "../../../src/virt-hook/templates/go/sdk/testdata/vmi_paths.json")


class VmiTest(unittest.TestCase):
    def test_paths(self):
        """The same list as the tests of the other SDKs."""
        with open(LIST, encoding="utf-8") as file:
            paths = json.load(file)
        vmi = Vmi(paths["vmi"])
        for path, value in paths["values"]:
            self.assertEqual(vmi.get_path(path), value, path)
        for path in paths["invalid"]:
            with self.assertRaises(PathError, msg=path):
                vmi.get_path(path)

    def test_what_is_missing_or_null_is_the_default(self):
        vmi = Vmi({"spec": None})
        self.assertEqual(vmi.get_path("spec", 1), 1)
        self.assertEqual(vmi.get_path("spec.domain", 2), 2)
        self.assertEqual(vmi.get_path(""), vmi)


if __name__ == "__main__":
    unittest.main()
