"""cloud-init data: the same cases as the SDK in Rust has."""

import unittest

from virt_hook import CloudConfig, CloudInitError, Documents, Yaml

NETWORK = """# of the owner
network: # all of it
  version: 2
  ethernets:
    # the first
    eth0: # primary
      match: {macaddress: '02:00'}
      dhcp4: yes  # please
      addresses:
      - 10.0.0.2/24
      # gone
    'eth1.5':
      mtu: 1500

  # the end
"""


def twice(text, edit):
    """The text after an edit that is made twice."""
    yaml = Yaml(text)
    edit(yaml)
    once = str(yaml)
    edit(yaml)
    assert str(yaml) == once, "a second run changes it"
    return once


def added(text):
    return twice(text, lambda yaml: yaml.add("runcmd", ["touch", "/x"]))


class YamlTest(unittest.TestCase):
    maxDiff = None

    def test_an_item_joins_the_list_and_nothing_else_changes(self):
        item = '["touch","/x"]'
        for before, after in [
            ("", f"runcmd:\n  - {item}\n"),
            ("a: 1", f"a: 1\nruncmd:\n  - {item}\n"),
            ("---\na: 1\n", f"---\na: 1\nruncmd:\n  - {item}\n"),
            ("runcmd: [a]\n", f"runcmd: [a, {item}]\n"),
            ("runcmd: [ ]  # none\n", f"runcmd: [ {item}]  # none\n"),
            ("runcmd: ['it''s ]', \"a\\\"]\"] # ]\n", f"runcmd: ['it''s ]', \"a\\\"]\", {item}] # ]\n"),
            ("runcmd:\n- a\nx: 1\n", f"runcmd:\n- a\n- {item}\nx: 1\n"),
            ("runcmd:\nx: 1\n", f"runcmd:\n  - {item}\nx: 1\n"),
            ('"runcmd" :\n    - a\n', f'"runcmd" :\n    - a\n    - {item}\n'),
            ("runcmd:\r\n  - a\r\n", f"runcmd:\r\n  - a\r\n  - {item}\r\n"),
            ("runcmd:\n  # first\n  - |\n    #!/bin/sh\n    # last\n\n# pw\np: x\n", f"runcmd:\n  # first\n  - |\n    #!/bin/sh\n    # last\n  - {item}\n\n# pw\np: x\n"),
        ]:
            self.assertEqual(added(before), after)

    def test_an_item_that_is_there_is_told_from_one_that_contains_it(self):
        for before, item, after in [
            ("[8080]", 80, "[8080, 80]"),
            ("[80]", 80, "[80]"),
            ("[80]", "80", '[80, "80"]'),
            ("[vim]", "vim", "[vim]"),
            ("['vim', x]", "vim", "['vim', x]"),
            ("[vim-nox]", "vim", '[vim-nox, "vim"]'),
            ("[[a, b]]", "a", '[[a, b], "a"]'),
            ("[{a: b}]", "b", '[{a: b}, "b"]'),
            ("['a, b']", "b", "['a, b', \"b\"]"),
            ("[a] # b", "b", '[a, "b"] # b'),
            ("\n  - vim # mine", "vim", "\n  - vim # mine"),
            ("\n  - 8080", 80, "\n  - 8080\n  - 80"),
            ("\n  - vim: 1", "vim: 1", '\n  - vim: 1\n  - "vim: 1"'),
            ("\n  - - vim", "vim", '\n  - - vim\n  - "vim"'),
            ("\n  - restart\n\n    sshd", "restart", '\n  - restart\n\n    sshd\n  - "restart"'),
            ("\n  - a\n    # b", "a", "\n  - a\n    # b"),
            ("[a, b,]", "c", '[a, b, "c"]'),
        ]:
            after = f"list: {after}\n"
            self.assertEqual(twice(f"list: {before}\n", lambda yaml: yaml.add("list", item)), after)

    def test_what_cannot_take_an_item_safely_is_refused(self):
        for bad in [
            "runcmd: x", "runcmd: &a\n  - b", "runcmd: [a,\n  b]", "runcmd: |\n  x", "runcmd:\n  a: b", "runcmd: {a: b}",
            "{a: b}", "a: 1\n---\nb: 1", "runcmd: [a] b", "runcmd:\n  - a\n b", "runcmd:\nruncmd:\n",
        ]:
            with self.assertRaises(CloudInitError, msg=bad):
                added(bad + "\n")

    def test_a_key_is_set_where_it_is_and_comments_stay(self):
        for path, value, before, after in [
            ("network.version", 1, "version: 2", "version: 1"),
            ("network.ethernets.eth0.dhcp4", False, "dhcp4: yes  # please", "dhcp4: false  # please"),
            ("network.ethernets['eth1.5'].mtu", 9000, "mtu: 1500", "mtu: 9000"),
            (
                "network.ethernets['eth1.5'].nameservers.addresses", ["1.1.1.1"], "mtu: 1500\n",
                'mtu: 1500\n      nameservers:\n        addresses:\n          - "1.1.1.1"\n',
            ),
            ("network.ethernets.eth0.addresses", ["a"], "addresses:\n      - 10.0.0.2/24\n", 'addresses:\n        - "a"\n'),
            ("network.renderer", "networkd", "mtu: 1500\n", 'mtu: 1500\n  renderer: "networkd"\n'),
            ("network.version", 2, "version: 2", "version: 2"),
        ]:
            self.assertIn(before, NETWORK)
            self.assertEqual(twice(NETWORK, lambda yaml: yaml.set(path, value)), NETWORK.replace(before, after), path)

    def test_keys_and_texts_are_read_and_removed(self):
        yaml = Yaml(NETWORK)
        self.assertEqual(yaml.keys(), ["network"])
        self.assertEqual(yaml.keys("network.ethernets"), ["eth0", "eth1.5"])
        self.assertEqual(yaml.text("network.ethernets.eth0.dhcp4"), "yes")
        self.assertIsNone(yaml.text("network.ethernets.eth0"))
        self.assertFalse(yaml.contains("network.ethernets.eth2.mtu"))
        self.assertTrue(yaml.remove("network.ethernets.eth0"))
        self.assertFalse(yaml.remove("network.ethernets.eth0"))
        self.assertEqual(yaml.keys("network.ethernets"), ["eth1.5"])

    def test_what_is_no_path_is_refused(self):
        for path in ["", "a..b", ".a", "a.", "a[0]", "a/b", "a['b"]:
            with self.assertRaisesRegex(CloudInitError, "is not a path", msg=path):
                Yaml("a: 1\n").contains(path)


class DocumentsTest(unittest.TestCase):
    def test_user_data_is_edited_and_otherwise_kept(self):
        documents = Documents({"user-data": "#cloud-config\n# mine\npackages: [vim]\n"})
        for _ in range(2):
            with documents.cloud_config() as config:
                config.add_package("qemu-guest-agent")
                config.add_user("ops", {"lock_passwd": True})
                config.add_file("/etc/x", "0644", 'a "b"\n')
                config.add_run_command("systemctl", "start", "x")
        self.assertEqual(
            documents["user-data"],
            '#cloud-config\n# mine\npackages: [vim, "qemu-guest-agent"]\nusers:\n  - default\n  - name: "ops"\n'
            '    lock_passwd: true\nwrite_files:\n  - path: "/etc/x"\n    permissions: "0644"\n'
            '    content: "a \\"b\\"\\n"\nruncmd:\n  - ["systemctl","start","x"]\n',
        )

    def test_files_with_relative_paths_or_malformed_permissions_are_refused(self):
        for path, permissions, reason in [
            ("etc/x", "0644", "its path is not absolute"),
            ("", "0644", "its path is not absolute"),
            ("/etc/\0x", "0644", "its path contains a NUL character"),
            ("/etc/x", "", "three or four octal digits"),
            ("/etc/x", "rw-r--r--", "three or four octal digits"),
            ("/etc/x", "0o644", "three or four octal digits"),
            ("/etc/x", "0888", "three or four octal digits"),
            ("/etc/x", 0o644, "three or four octal digits"),
        ]:
            config = CloudConfig()
            with self.assertRaisesRegex(CloudInitError, reason, msg=(path, permissions)):
                config.add_file(path, permissions, "")
            self.assertEqual(str(config), "#cloud-config\n")

    def test_a_failed_edit_changes_nothing(self):
        documents = Documents({"network-data": "a: x\n"})
        with self.assertRaisesRegex(CloudInitError, "network-data, line 1: a is not a mapping"):
            with documents.network_data() as network:
                network.set("b", 1)
                network.set("a.b", 1)
        self.assertEqual(documents, {"network-data": "a: x\n"})

    def test_what_is_no_cloud_config_is_told_by_how_it_begins(self):
        with self.assertRaisesRegex(CloudInitError, 'it begins with "#!/bin/sh"'):
            CloudConfig("#!/bin/sh\n")
        self.assertEqual(str(CloudConfig("")), "#cloud-config\n")
        self.assertFalse(Documents({"user-data": "#!/bin/sh"}).is_cloud_config)
        self.assertTrue(Documents().is_cloud_config)


if __name__ == "__main__":
    unittest.main()
