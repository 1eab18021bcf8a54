"""`virt_hook.pod` (pod facts) in tests that run the hook as plain Python, without WASM."""

import importlib
import sys
import types
import unittest
from unittest import mock

from virt_hook import Hook, pod
from virt_hook.testing import call

STATUS = [
    {"name": "cbr0", "interface": "eth0", "ips": ["10.0.0.7"], "default": True},
    {"name": "infra/lab", "ips": ["192.0.2.10"], "mac": "02:00:00:00:00:01"},
    {"name": "infra/lab", "mac": "02:00:00:00:00:02"},
]


class WorldTest(unittest.TestCase):
    def test_a_component_whose_world_has_no_pod_is_refused(self):
        imports = types.ModuleType("wit_world.imports")
        world = types.ModuleType("wit_world")
        world.imports = imports
        errors = types.ModuleType("componentize_py_types")
        errors.Err = Exception
        fake = {"wit_world": world, "wit_world.imports": imports, "componentize_py_types": errors}
        try:
            with mock.patch.dict(sys.modules, fake), self.assertRaisesRegex(ImportError, "OPTIONAL in sdk/hook.mk"):
                importlib.reload(pod)
            imports.pod = types.SimpleNamespace(label=lambda key, wait: f"{key} of the host")
            with mock.patch.dict(sys.modules, fake):
                self.assertEqual(importlib.reload(pod).label("a"), "a of the host")
        finally:
            importlib.reload(pod)


class PodTest(unittest.TestCase):
    def ask(self, questions, **host):
        """Asks in a hook that runs in this pod."""
        answers = []

        class AskingHook(Hook):
            pod_facts = ["annotations/*", "labels/?", "labels/a*", "labels/b", "network-status/*/lab", "default-network", "network-info"]

            def pre_start(self, vmi):
                answers.append(questions())

        call(AskingHook, **host).pre_start({})
        return answers[0]

    def test_hook_reads_the_facts_given_to_call(self):
        facts = {"annotations": {"a": "1"}, "labels": {"b": "2"}, "networkStatus": STATUS, "networkInfo": {"c": []}}
        asked = lambda: (pod.annotation("a"), pod.label("b"), pod.default_network().name, pod.network_info())
        self.assertEqual(self.ask(asked, pod=facts), ("1", "2", "cbr0", {"c": []}))
        lab = self.ask(lambda: pod.networks("lab"), pod=facts, invocation={"namespace": "infra"})
        self.assertEqual([(one.mac, one.ips) for one in lab], [("02:00:00:00:00:01", ["192.0.2.10"]), ("02:00:00:00:00:02", [])])

    def test_what_is_not_there_is_absent(self):
        for question in (
            lambda wait: pod.annotation("a", wait),
            lambda wait: pod.label("a", wait),
            lambda wait: pod.networks("infra/lab", wait),
            pod.default_network,
            pod.network_info,
        ):
            self.assertFalse(self.ask(lambda: question(False)))
            with self.assertRaisesRegex(pod.FactError, "is not there: give the test a pod with it") as raised:
                self.ask(lambda: question(True))
            self.assertEqual(raised.exception.kind, "absent")

    def test_a_fact_that_the_hook_does_not_declare_is_denied(self):
        for question, name in [
            (lambda: pod.label("c"), "labels/c"),
            (lambda: pod.label("c", wait=False), "labels/c"),
            (lambda: pod.networks("infra/other"), "network-status/infra/other"),
        ]:
            with self.assertRaisesRegex(pod.FactError, f'add "{name}"') as raised:
                self.ask(question, pod={"labels": {"c": "1"}})
            self.assertEqual(raised.exception.kind, "denied")

    def test_an_empty_annotation_is_there(self):
        self.assertEqual(self.ask(lambda: pod.annotation("a"), pod={"annotations": {"a": ""}}), "")


if __name__ == "__main__":
    unittest.main()
