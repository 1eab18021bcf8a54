"""Elements, paths and domains."""

import unittest
from pathlib import Path

from virt_hook import Device, Domain, Element, PathError, XmlError

XML = """<?xml version="1.0"?>
<!-- before -->
<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name>
  <metadata><k:kubevirt xmlns:k="http://kubevirt.io"><k:uid>u</k:uid></k:kubevirt></metadata>
  <devices>
    <disk type="file"  device='disk'>
      <target dev='vda'/>
      <alias name='ua-root'/>
    </disk>
    <interface><mac address='02:00:00:00:00:0a'/><alias name='ua-default'/></interface>
    <hostdev><source><address domain='0x0000' bus='0x65' slot='0x00' function='0x0'/></source><alias name='ua-gpu-big'/></hostdev>
  </devices>
  <title><![CDATA[a & b]]> &lt;c&#62;</title>
  <q:commandline>
    <q:arg value='-S'/>
  </q:commandline>
</domain >
"""

CORPUS = Path(__file__).parent.parent.parent / "corpus" / "vmi-to-domain-xml"


def edited(edit, xml=XML):
    """The domain after an edit, which changes nothing when it runs again."""
    domain = Domain.parse(xml)
    edit(domain)
    once = str(domain)
    again = Domain.parse(once)
    edit(again)
    assert str(again) == once, f"a second run changes it: {again}"
    return once


class XmlTest(unittest.TestCase):
    maxDiff = None

    def test_what_is_not_touched_keeps_its_bytes(self):
        self.assertEqual(edited(lambda domain: None), XML)

        def same(domain):
            domain.set("devices/disk/target/@dev", "vda")
            domain.set("name", "vm")

        self.assertEqual(edited(same), XML)

    def test_domains_of_kubevirt_keep_their_bytes(self):
        paths = list(CORPUS.glob("*.xml"))
        self.assertGreater(len(paths), 100)
        for path in paths:
            text = path.read_text()
            self.assertEqual(str(Domain.parse(text)), text, path)
            domain = Domain.parse(text)
            domain.set("title", "x")
            domain.remove("title")
            self.assertEqual(domain.text, Domain.parse(text).text, path)

    def test_edits_stay_where_they_are(self):
        for edit, before, after in [
            (lambda d: d.set("devices/disk/@type", "block"), 'type="file"', 'type="block"'),
            (lambda d: d.set("devices/disk/@model", "a\"'<"), "device='disk'", "device='disk' model='a\"&apos;&lt;'"),
            (lambda d: d.disk("root").remove_attr("device"), "  device='disk'", ""),
            (lambda d: d.set("title", "x"), "<![CDATA[a & b]]> &lt;c&#62;", "x"),
            (lambda d: d.remove("devices/disk/target"), "\n      <target dev='vda'/>", ""),
            (
                lambda d: d.disk("vda").ensure("driver").set_attr("queues", 2),
                "<alias name='ua-root'/>",
                "<alias name='ua-root'/>\n      <driver queues='2'/>",
            ),
            (
                lambda d: d.set("devices/watchdog[@model='itco']/alias/@name", "ua-w"),
                "</hostdev>\n",
                "</hostdev>\n    <watchdog model='itco'>\n      <alias name='ua-w'/>\n    </watchdog>\n",
            ),
            (
                lambda d: d.add_qemu_args("-a", "b"),
                "    <q:arg value='-S'/>\n",
                "    <q:arg value='-S'/>\n    <q:arg value='-a'/>\n    <q:arg value='b'/>\n",
            ),
        ]:
            self.assertIn(before, XML)
            self.assertEqual(edited(edit), XML.replace(before, after, 1))

    def test_a_literal_is_laid_out_like_its_siblings(self):
        literal = "<watchdog\n  model='itco'><!-- x -->\n <alias name='ua-w'/></watchdog>"
        got = edited(lambda d: d.insert_if_absent("devices/watchdog", literal))
        made = "    <watchdog model='itco'>\n      <alias name='ua-w'/>\n    </watchdog>\n  </devices>"
        self.assertEqual(got, XML.replace("  </devices>", made))
        with self.assertRaisesRegex(ValueError, "does not select <watchdog/>"):
            Domain.parse(XML).insert_if_absent("devices/watchdog[@model='itco']", "<watchdog/>")

    def test_order_is_kept_where_the_schema_has_one(self):
        domain = Domain.parse("<domain><hostdev><source><product id='1'/></source></hostdev></domain>")
        for name in ("address", "vendor", "other"):
            domain.insert("hostdev/source", Element(name))
        made = "<vendor/><product id='1'/><address/><other/>"
        self.assertEqual(str(domain), f"<domain><hostdev><source>{made}</source></hostdev></domain>")

    def test_a_missing_namespace_is_declared(self):
        got = edited(lambda d: d.set_qemu_env("A", "1"), "<domain>\n  <name>a</name>\n</domain>")
        self.assertEqual(
            got,
            "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <name>a</name>\n"
            "  <qemu:commandline>\n    <qemu:env name='A' value='1'/>\n  </qemu:commandline>\n</domain>",
        )

    def test_paths_select(self):
        domain = Domain.parse(XML)
        for path, value in [
            ("name", "vm"),
            ("/domain/@type", "kvm"),
            ("devices/disk[target/@dev='vda']/alias/@name", "ua-root"),
            ("devices/*[2]/alias/@name", "ua-default"),
            ("devices/disk[target]/@device", "disk"),
            ("metadata/*/uid", "u"),
            ("**/uid", "u"),
            ("title[text()='a & b <c>']", "a & b <c>"),
            ("qemu:commandline/qemu:*/@value", "-S"),
            ("devices/disk[@type='block']/@device", None),
            ("devices/disk/alias[@name='ua-root'][2]/@name", None),
        ]:
            self.assertEqual(domain.value(path), value, path)
        self.assertEqual([e.name for e in domain.find_all("devices/**/alias")], ["alias"] * 3)

    def test_none_is_no_value(self):
        domain = Domain.parse("<domain><name>a</name></domain>")
        for edit in [
            lambda: domain.set("name", None),
            lambda: domain.find("name").set_attr("x", None),
            lambda: setattr(domain.find("name"), "text", None),
        ]:
            with self.assertRaisesRegex(TypeError, "cannot be None"):
                edit()
        self.assertEqual(str(domain), "<domain><name>a</name></domain>")

    def test_what_is_no_path_is_refused_with_its_column(self):
        for path, column in [("", 1), ("a//b", 3), ("a[", 3), ("a[b='x]", 5), ("a[0]", 3), ("a b", 2), ("a@b", 2)]:
            with self.assertRaisesRegex(PathError, f"column {column}:", msg=path):
                Domain.parse(XML).find(path)
        for path in ["devices/*/x", "**/x", "a[2]", "a[b]"]:
            with self.assertRaisesRegex(PathError, "nothing can be made", msg=path):
                Domain.parse(XML).ensure(path)

    def test_an_absolute_path_with_another_root_is_refused(self):
        domain = Domain.parse(XML)
        for use in (
            domain.find,
            domain.find_all,
            domain.value,
            domain.remove,
            lambda path: domain.set_if_absent(path, "a"),
        ):
            for path in ("/devices/disk", "/other/@name"):
                with self.assertRaisesRegex(PathError, "the element is <domain>, not what the path begins with"):
                    use(path)
        for path in ("/*/none", "/**/none", "/domain[@type='x']/name"):
            self.assertIsNone(domain.find(path), path)

    def test_devices_are_found_by_the_names_of_the_vmi(self):
        domain = Domain.parse(XML)
        for found in [
            domain.disk("root"),
            domain.disk("vda"),
            domain.interface("default"),
            domain.interface("02:00:00:00:00:0A"),
            domain.host_device("big"),
            domain.host_device("0000:65:00.0"),
            domain.device("ua-root"),
        ]:
            self.assertIsNotNone(found)
        for missing in [domain.disk("default"), domain.host_device("0000:65:00.1"), domain.host_device("65:00"), domain.device("x")]:
            self.assertIsNone(missing)
        colliding = Domain.parse(
            "<domain><devices><disk id='1'><target dev='vdb'/><alias name='ua-root'/></disk>"
            "<disk id='2'><target dev='vda'/><alias name='ua-vdb'/></disk></devices></domain>"
        )
        self.assertEqual(colliding.disk("vdb").attr("id"), "2")
        self.assertEqual(colliding.disk("vda").attr("id"), "2")

    def test_the_vmi_name_is_the_alias_without_kubevirts_prefixes(self):
        for kind, alias, name in [
            ("disk", "ua-a", "a"),
            ("disk", "ua-gpu-a", "gpu-a"),
            ("hostdev", "ua-gpu-big", "big"),
            ("hostdev", "ua-gpu-gpu-big", "gpu-big"),
            ("hostdev", "ua-hostdevice-nic", "nic"),
            ("hostdev", "ua-sriov-net1", "net1"),
            ("hostdev", "ua-usb-host-stick", "stick"),
            ("hostdev", "ua-dra-gpu-a", "a"),
            ("hostdev", "ua-dra-hostdevice-b", "b"),
            ("hostdev", "hostdev0", "hostdev0"),
        ]:
            device = Device.parse(f"<{kind}><alias name='{alias}'/></{kind}>\n")
            self.assertEqual(device.vmi_name, name, alias)
        self.assertIsNone(Device.parse("<disk/>").vmi_name)

    def test_a_device_is_edited_as_a_domain_is(self):
        """Each task of docs/sdk.md for "the domain, or a device"."""
        device = Device.parse("<hostdev><source><product id='1'/></source></hostdev>")
        self.assertIsNotNone(device.find("source/product"))
        self.assertEqual(len(device.find_all("source/*")), 1)
        self.assertEqual(device.value("source/product/@id"), "1")
        device.set("@managed", "no")
        self.assertFalse(device.set_if_absent("@managed", "yes"))
        device.ensure("alias").set_attr("name", "ua-a")
        device.insert("source", Element.parse("<vendor id='2'/>"))
        self.assertTrue(device.insert_if_absent("source/address", "<address/>"))
        self.assertFalse(device.insert_if_absent("source/address", "<address/>"))
        self.assertEqual(device.remove("source/product"), 1)
        self.assertEqual(
            str(device),
            "<hostdev managed='no'><source><vendor id='2'/><address/></source><alias name='ua-a'/></hostdev>",
        )

    def test_xml_is_inserted_wherever_an_element_is(self):
        domain = Domain.parse("<domain><a/><c/></domain>")
        domain.append("<d x='1'/>")
        domain.insert_before("c", "<b/>")
        domain.insert_after("a", "<a2/>")
        domain.insert("e", "<f/>")
        self.assertEqual(str(domain), "<domain><a/><a2/><b/><c/><d x='1'/><e><f/></e></domain>")

    def test_values_of_other_types_are_refused(self):
        domain = Domain.parse("<domain><a/></domain>")
        for insert in (
            lambda value: domain.append(value),
            lambda value: domain.insert_before("a", value),
            lambda value: domain.insert_after("a", value),
            lambda value: domain.insert("a", value),
            lambda value: domain.insert_if_absent("a/b", value),
        ):
            for value in (None, 7, {"name": "b"}):
                with self.assertRaisesRegex(TypeError, "an Element or XML, and not .*Element.parse"):
                    insert(value)
        for value in (True, ["a"], {"a": 1}, domain, b"a"):
            for put in (
                lambda value: domain.set("a/@x", value),
                lambda value: domain.set_attr("x", value),
                lambda value: setattr(domain, "text", value),
                lambda value: Element("a", text=value),
            ):
                with self.assertRaisesRegex(TypeError, "cannot be True|is a text or a number, and not"):
                    put(value)
        for call in (domain.find, domain.value, domain.remove, domain.ensure):
            with self.assertRaisesRegex(TypeError, "a path is a text, and not"):
                call(None)
        with self.assertRaisesRegex(TypeError, "XML is a text, and not None"):
            Element.parse(None)
        self.assertEqual(str(domain), "<domain><a/></domain>")

    def test_what_is_no_xml_is_refused_with_its_place(self):
        for xml, place in [
            ("", "line 1, column 1"),
            ("<a>", "line 1, column 4: expected `</a>`"),
            ("<a>\n </b></a>", "line 2, column 2: expected `</a>`"),
            ("<a x='1' x='2'/>", "attributes of different names"),
            ("<a>&nope;</a>", "column 4: expected a reference"),
            ("<a x='&'/>", "column 7"),
            ("<a x=1/>", "quoted attributes"),
            ("<a/><b/>", "the end of the document"),
            ("<a>" * 200, "at most 128 levels"),
        ]:
            with self.assertRaisesRegex(XmlError, place, msg=xml):
                Element.parse(xml)


if __name__ == "__main__":
    unittest.main()
