"""Runs natively: make native."""

import json
import unittest

from hook import ANNOTATION, Interfaces
from virt_hook import Veto
from virt_hook.testing import call

DOMAIN = "<domain>\n\t<devices>\n\t\t<interface><alias name='ua-default'/></interface>\n\t</devices>\n</domain>\n"


def vmi(tuning, multiqueue=True, cores=4):
    return {
        "metadata": {"annotations": {ANNOTATION: json.dumps(tuning)}},
        "spec": {
            "domain": {
                "cpu": {"cores": cores},
                "devices": {"interfaces": [{"name": "default"}], "networkInterfaceMultiqueue": multiqueue},
            }
        },
    }


class InterfacesTest(unittest.TestCase):
    def test_an_interface_is_tuned(self):
        domain = call(Interfaces).on_define_domain(vmi({"default": {"queues": 4}}), DOMAIN)
        self.assertEqual(domain, DOMAIN.replace("'/></", "'/><driver queues='4'/></"))

    def test_an_unknown_interface_is_refused(self):
        with self.assertRaisesRegex(Veto, "the VM has \\['default'\\]"):
            call(Interfaces).pre_start(vmi({"other": {}}))

    def test_queues_that_the_tap_device_does_not_have_are_refused(self):
        queues = {"default": {"queues": 4}}
        device = "<interface><alias name='ua-default'/></interface>"
        for other in (vmi(queues, multiqueue=False), vmi(queues, cores=1)):
            for run in (
                lambda vmi: call(Interfaces).pre_start(vmi),
                lambda vmi: call(Interfaces).on_define_domain(vmi, DOMAIN),
                lambda vmi: call(Interfaces).on_attach_device(vmi, device),
            ):
                with self.assertRaisesRegex(Veto, "networkInterfaceMultiqueue"):
                    run(other)
        call(Interfaces).pre_start(vmi({"default": {"rxQueueSize": 512}}, multiqueue=False))
        for wrong in (1, 257, "4", True):
            with self.assertRaisesRegex(Veto, "from 2 to 256"):
                call(Interfaces).pre_start(vmi({"default": {"queues": wrong}}))

    def test_a_migration_has_as_many_connections_as_queues(self):
        given = {"bandwidth": 0, "parallel-connections": 0}
        tuned = call(Interfaces).pre_migration_source(vmi({"default": {"queues": 4}}), given)
        self.assertEqual(tuned, {"bandwidth": 0, "parallel-connections": 4})


if __name__ == "__main__":
    unittest.main()
