//! Selecting, ensuring and removing by path.

use super::*;
use crate::Document;

const DOMAIN: &str = "<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>vm</name>
  <devices>
    <disk type='file'>
      <target dev='vda'/>
      <driver name='qemu'/>
    </disk>
    <disk type='file'>
      <target dev='vdb'/>
    </disk>
  </devices>
  <q:commandline>
    <q:arg value='-S'/>
  </q:commandline>
</domain>
";

#[test]
fn paths_select_elements_attributes_and_text() {
    let domain = Document::parse(DOMAIN).unwrap();
    let value = |path: &str| domain.value(path).unwrap();
    assert_eq!(value("name").as_deref(), Some("vm"));
    assert_eq!(value("/domain/@type").as_deref(), Some("kvm"));
    assert_eq!(
        value("devices/disk[target/@dev='vda']/driver/@name").as_deref(),
        Some("qemu")
    );
    assert_eq!(value("devices/disk[target/@dev='vdb']/driver/@name"), None);
    assert_eq!(value("devices/disk[2]/target/@dev").as_deref(), Some("vdb"));
    assert_eq!(
        value("qemu:commandline/qemu:arg/@value").as_deref(),
        Some("-S")
    );
    assert_eq!(value("qemu:*/qemu:*/@*").as_deref(), Some("-S"));
    assert_eq!(
        domain.root().values("**/target/@dev").unwrap(),
        ["vda", "vdb"]
    );
    assert_eq!(domain.find_all("devices/disk[driver]").unwrap().len(), 1);
    assert_eq!(domain.find_all("/domain/devices/**").unwrap().len(), 6);
    assert_eq!(domain.find_all("**").unwrap().len(), 10);
}

#[test]
fn ensure_creates_missing_elements_once() {
    let mut domain = Document::parse(DOMAIN).unwrap();
    for _ in 0..2 {
        domain
            .root_mut()
            .set("devices/disk[target/@dev='vdb']/driver/@queues", "4")
            .unwrap();
        domain
            .root_mut()
            .set(
                "sysinfo[@type='smbios']/baseBoard/entry[@name='serial']",
                "a<b",
            )
            .unwrap();
    }
    let expected = DOMAIN
        .replace("'vdb'/>\n", "'vdb'/>\n      <driver queues='4'/>\n")
        .replace("</domain>", "  <sysinfo type='smbios'>\n    <baseBoard>\n      <entry name='serial'>a&lt;b</entry>\n    </baseBoard>\n  </sysinfo>\n</domain>");
    assert_eq!(domain.render(), expected);
}

#[test]
fn ensure_refuses_paths_that_define_no_element() {
    let mut domain = Document::parse(DOMAIN).unwrap();
    for path in [
        "devices/*",
        "**",
        "devices/disk[3]",
        "devices/disk[driver]",
        "/other/name",
        "devices/@x",
        "devices/@*",
    ] {
        assert!(domain.ensure(path).is_err(), "{path}");
    }
    assert!(domain.root_mut().set("devices/@*", "x").is_err());
    assert_eq!(domain.render(), DOMAIN);
}

#[test]
fn remove_deletes_complete_lines() {
    let mut domain = Document::parse(DOMAIN).unwrap();
    assert_eq!(domain.root_mut().remove("devices/disk").unwrap(), 2);
    assert_eq!(domain.root_mut().remove("qemu:commandline").unwrap(), 1);
    assert_eq!(domain.root_mut().remove("@type").unwrap(), 1);
    assert_eq!(domain.root_mut().remove("/domain").unwrap(), 0);
    assert_eq!(
        domain.render(),
        "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>\n  <name>vm</name>\n  <devices></devices>\n</domain>\n"
    );
}

#[test]
fn remove_handles_nested_matches() {
    let mut domain = Document::parse("<a>\n <b>\n  <b/>\n </b>\n <b/>\n</a>").unwrap();
    assert_eq!(domain.root_mut().remove("**/b").unwrap(), 3);
    assert_eq!(domain.render(), "<a></a>");
}

#[test]
fn the_last_step_is_found_behind_predicates() {
    assert_eq!(split_last("a/b[c/@d='x/]y']"), ("a", "b[c/@d='x/]y']"));
    assert_eq!(split_last("/domain/devices/x"), ("/domain/devices", "x"));
    assert_eq!(split_last("x"), ("", "x"));
}

#[test]
fn an_element_that_its_path_would_not_find_again_is_an_error() {
    let mut domain = Element::new("domain");
    let error = domain
        .insert_if_absent("devices/disk[target/@dev='vdz']", || Element::new("disk"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("`devices/disk[target/@dev='vdz']` does not select <disk/>"),
        "{error}"
    );
}

#[test]
fn insert_keeps_the_order_of_the_schema() {
    let mut domain =
        Element::parse("<domain><hostdev><source><product id='1'/></source></hostdev></domain>")
            .unwrap();
    domain
        .insert("hostdev/source", Element::new("address"))
        .unwrap();
    domain
        .insert("hostdev/source", Element::new("vendor"))
        .unwrap();
    domain
        .insert("hostdev/source", Element::new("other"))
        .unwrap();
    assert_eq!(
        domain.render(),
        "<domain><hostdev><source><vendor/><product id='1'/><address/><other/></source></hostdev></domain>"
    );
}
