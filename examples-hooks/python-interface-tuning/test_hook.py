"""Runs natively: make native."""

import json
import unittest

from hook import ANNOTATION, Interfaces
from virt_hook import Veto
from virt_hook.testing import call

DOMAIN = "<domain>\n\t<devices>\n\t\t<interface><alias name='ua-default'/></interface>\n\t</devices>\n</domain>\n"


def vmi(tuning):
    return {
        "metadata": {"annotations": {ANNOTATION: json.dumps(tuning)}},
        "spec": {"domain": {"devices": {"interfaces": [{"name": "default"}]}}},
    }


class InterfacesTest(unittest.TestCase):
    def test_an_interface_is_tuned(self):
        domain = call(Interfaces).on_define_domain(vmi({"default": {"queues": 4}}), DOMAIN)
        self.assertEqual(domain, DOMAIN.replace("'/></", "'/><driver queues='4'/></"))

    def test_an_unknown_interface_is_refused(self):
        with self.assertRaisesRegex(Veto, "the VM has \\['default'\\]"):
            call(Interfaces).pre_start(vmi({"other": {}}))

    def test_a_migration_has_as_many_connections_as_queues(self):
        given = {"bandwidth": 0, "parallel-connections": 0}
        tuned = call(Interfaces).pre_migration_source(vmi({"default": {"queues": 4}}), given)
        self.assertEqual(tuned, {"bandwidth": 0, "parallel-connections": 4})


if __name__ == "__main__":
    unittest.main()
