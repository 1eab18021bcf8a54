"""Native tests refuse what the host would refuse, because the hook does not declare it."""

import unittest

from virt_hook import Hook, config
from virt_hook.testing import call
from virt_hook.wishes import NotDeclared

DOMAIN = """<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name>
  <devices>
    <disk type='file'><target dev='vda'/><driver io='native'/></disk>
    <disk type='file'><target dev='vdb'/><driver io='threads'/></disk>
  </devices>
</domain>
"""


def define(paths, edit, xml=DOMAIN):
    class Edits(Hook):
        def on_define_domain(self, vmi, domain):
            edit(domain)

    Edits.paths = paths
    return call(Edits).on_define_domain({}, xml)


def watchdog(domain):
    domain.insert_if_absent("devices/watchdog", "<watchdog model='itco'><alias name='ua-w'/></watchdog>")


class PathsTest(unittest.TestCase):
    def denied(self, paths, edit, wish):
        with self.assertRaises(NotDeclared) as raised:
            define(paths, edit)
        self.assertIn(f'paths = ["{wish}"]', str(raised.exception))

    def test_a_change_without_a_path_is_denied_with_the_path(self):
        self.denied([], lambda domain: domain.set("title", "a"), "/domain/title")
        self.denied(["/domain/title"], lambda domain: domain.set("cpu/@mode", "a"), "/domain/cpu/**")
        self.denied(["/domain/*"], lambda domain: domain.set("name/@x", "a"), "/domain/name/@x")
        define(["/domain/name"], lambda domain: domain.set("name/@x", "a"))
        self.denied(["/domain/devices"], lambda domain: domain.remove("devices/disk[2]"), "/domain/devices/disk/**")
        self.denied(["/domain/devices/disk/**"], lambda domain: domain.set("name", "a"), "/domain/name")

    def test_an_inserted_element_needs_what_is_inside_of_it(self):
        wish = "/domain/devices/watchdog/**"
        for paths in ([], ["/domain/devices/watchdog"], ["/domain/devices/*", "/domain/devices/watchdog/alias"]):
            self.denied(paths, watchdog, wish)
        define([wish], watchdog)
        define(["/domain/devices/watchdog", "/domain/devices/watchdog/alias"], watchdog)
        define(["/domain/**"], watchdog)

    def test_a_new_parent_is_covered_by_what_is_in_it(self):
        pin = lambda domain: domain.set("cputune/iothreadpin[@iothread='1']/@cpuset", "3")
        define(["/domain/cputune/iothreadpin"], pin)
        self.denied(["/domain/cputune/shares"], pin, "/domain/cputune/**")

    def test_a_path_may_have_conditions(self):
        title = lambda domain: domain.set("title", "a")
        define([{"path": "/domain/title", "one-of": ["a"]}], title)
        self.denied([{"path": "/domain/name", "matches": "a", "at-most": 5}], title, "/domain/title")
        for wish in ({"path": "/domain/title", "oneOf": ["a"]}, {"path": "/domain/title"}, {"below": "/logs"}):
            with self.assertRaisesRegex(NotDeclared, "is no path with conditions: .* below, one-of, matches, at-most"):
                define([wish], title)

    def test_a_path_covers_what_it_selects(self):
        queues = lambda domain: domain.set("devices/disk[target/@dev='vdb']/driver/@queues", "2")
        for covering in ["disk[target/@dev='vdb']/driver/@queues", "disk[2]/driver/@*", "*/*/@queues", "**/driver/**", "disk/driver"]:
            define(["/domain/devices/" + covering], queues)
        for other in ["disk[target/@dev='vda']/driver/@queues", "disk/driver/@io", "disk/*", "disk[1]/**"]:
            self.denied(["/domain/devices/" + other], queues, "/domain/devices/disk/driver/@queues")

    def test_an_edit_and_a_removal_are_covered_by_the_attribute(self):
        path = "/domain/devices/disk[target/@dev='vda']/driver/@io"
        swap = lambda domain: domain.set("devices/disk[target/@dev='vda']/driver/@io", "io_uring")
        remove = lambda domain: domain.remove("devices/disk[1]/driver/@io")
        for edit in (swap, remove):
            define([path], edit)
            self.denied([path.replace("vda", "vdb")], edit, "/domain/devices/disk/driver/@io")

    def test_layout_declarations_and_prefixes_are_no_changes(self):
        define(["/domain/qemu:commandline/**"], lambda domain: domain.add_qemu_args("-x"))
        xml = DOMAIN.replace(" xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'", "")
        define(["/domain/qemu:commandline/**"], lambda domain: domain.add_qemu_args("-x"), xml)
        define([], lambda domain: None)

    def test_an_attached_device_is_one_of_a_domain(self):
        class Attaches(Hook):
            paths = ["/domain/devices/disk/driver/@io"]

            def on_attach_device(self, vmi, device):
                device.set(vmi["path"], "x")

        device = "<disk><target dev='sda'/><driver name='qemu'/></disk>"
        call(Attaches).on_attach_device({"path": "driver/@io"}, device)
        with self.assertRaisesRegex(NotDeclared, "/domain/devices/disk/driver/@cache"):
            call(Attaches).on_attach_device({"path": "driver/@cache"}, device)


class NamesTest(unittest.TestCase):
    def test_a_configuration_key_that_is_not_declared_is_refused(self):
        class Configured(Hook):
            config_keys = ["a"]

            def pre_start(self, vmi):
                vmi["found"].append(config("a"))

        call(Configured, config={"a": "1"})
        with self.assertRaisesRegex(NotDeclared, 'config_keys = ."b".'):
            call(Configured, config={"a": "1", "b": "2"})

    def test_a_parameter_of_a_migration_that_is_not_declared_is_refused(self):
        class Tunes(Hook):
            migration = ["bandwidth"]

            def pre_migration_source(self, vmi, migration):
                migration[vmi["set"]] = 7

        given = {"bandwidth": 0, "max-downtime": 300}
        self.assertEqual(call(Tunes).pre_migration_source({"set": "bandwidth"}, given)["bandwidth"], 7)
        with self.assertRaisesRegex(NotDeclared, 'migration = ."max-downtime".'):
            call(Tunes).pre_migration_source({"set": "max-downtime"}, given)


if __name__ == "__main__":
    unittest.main()
