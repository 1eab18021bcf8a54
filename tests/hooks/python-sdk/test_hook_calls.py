"""Mistakes in a hook that Python itself does not notice."""

import unittest

from virt_hook import Hook, Veto, export
from virt_hook.hook_calls import HookError
from virt_hook.testing import call

POINTS = {
    "pre_start": (),
    "pre_cloud_init_iso": ("noCloud", {"user-data": ""}),
    "on_define_domain": ("<domain/>",),
    "on_attach_device": ("<disk/>",),
    "pre_migration_source": ({},),
    "shutdown": None,
}


def hook_with(**members):
    return type("Mistaken", (Hook,), members)


def run(hook, point):
    arguments = POINTS[point]
    getattr(call(hook), point)(*(() if arguments is None else ({}, *arguments)))


class ResultTest(unittest.TestCase):
    def test_a_result_is_refused_at_every_hook_point(self):
        for point in POINTS:
            with self.assertRaisesRegex(HookError, f"{point} returned a Veto: raise it \\(test_hook_calls.py:"):
                run(hook_with(**{point: lambda *_: Veto("no")}), point)
            with self.assertRaisesRegex(HookError, f"{point} returned a str, which nobody reads"):
                run(hook_with(**{point: lambda *_: ""}), point)
            run(hook_with(**{point: lambda *_: None}), point)

    def test_a_hook_point_that_only_makes_a_coroutine_or_generator_is_refused(self):
        async def waits(*_):
            raise Veto("no")

        def yields(*_):
            yield

        async def both(*_):
            yield

        for method, why in [(waits, "`async`"), (both, "`async`"), (yields, "`yield`")]:
            with self.assertRaisesRegex(HookError, why):
                run(hook_with(pre_start=method), "pre_start")


class CloudInitTest(unittest.TestCase):
    def test_arguments_are_those_of_the_hook_in_its_order(self):
        seen = []
        hook = hook_with(pre_cloud_init_iso=lambda self, vmi, data_source, documents: seen.append((data_source, dict(documents))))
        call(hook).pre_cloud_init_iso({}, "configDrive", {"user-data": "a"})
        self.assertEqual(seen[0], ("configDrive", {"user-data": "a"}))
        for arguments in [({"user-data": "a"}, "noCloud"), ("noCloud", "user-data")]:
            with self.assertRaisesRegex(TypeError, "\\(vmi, data_source, documents\\): data_source is a text"):
                call(hook).pre_cloud_init_iso({}, *arguments)


class MembersTest(unittest.TestCase):
    def test_a_misspelt_member_is_refused(self):
        for members, meant in [
            ({"on_define_domian": lambda *_: None}, "on_define_domain"),
            ({"onDefineDomain": lambda *_: None}, "on_define_domain"),
            ({"pre_cloudinit_iso": lambda *_: None}, "pre_cloud_init_iso"),
            ({"shut_down": lambda *_: None}, "shutdown"),
            ({"dirs": []}, "directories"),
            ({"config": []}, "config_keys"),
            ({"path": []}, "paths"),
            ({"pod": []}, "pod_facts"),
        ]:
            (name,) = members
            for use in (call, export):
                with self.assertRaisesRegex(HookError, f"Mistaken.{name} is no .*: is {meant} meant"):
                    use(hook_with(**members))

    def test_an_inherited_misspelt_member_is_refused(self):
        with self.assertRaises(HookError):
            call(type("Derived", (hook_with(pre_strat=lambda *_: None),), {}))

    def test_members_of_the_hooks_own_are_allowed(self):
        call(
            hook_with(
                paths=[],
                path="/domain/title",
                config=lambda self: None,
                tune=lambda self: None,
                annotation="a",
                _on_define=lambda self: None,
                on_define_domain=lambda self, vmi, domain: None,
                on_define_domain_2=lambda self: None,
            )
        )


if __name__ == "__main__":
    unittest.main()
