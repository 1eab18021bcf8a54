//! The domain XML of KubeVirt's Windows machine with many disks, and the smbios hook's edits of it.
// Each benchmark uses a part of it.
#![allow(dead_code)]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use domain_xml::Document;

/// KubeVirt's Windows machine with further disks: 36 make 15 KB.
pub(crate) fn windows_vm(disks: usize, cache: &str) -> String {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let xml = fs::read_to_string(corpus.join("typical-windows.xml")).unwrap();
    let (before, after) = xml.split_at(xml.find("\t\t<input ").unwrap());
    let mut added = String::new();
    for number in 0..disks {
        write!(
            added,
            "\t\t<disk device=\"disk\" type=\"block\" model=\"virtio-non-transitional\">\n\
             \t\t\t<source dev=\"/dev/data{number}\"></source>\n\
             \t\t\t<target bus=\"virtio\" dev=\"vd{number}\"></target>\n\
             \t\t\t<serial>serial-{number}</serial>\n\
             \t\t\t<driver cache=\"{cache}\" error_policy=\"stop\" name=\"qemu\" type=\"raw\" \
             io=\"native\" discard=\"unmap\"></driver>\n\
             \t\t\t<alias name=\"ua-data{number}\"></alias>\n\
             \t\t</disk>\n"
        )
        .unwrap();
    }
    [before, &added, after].concat()
}

/// The edits of the smbios hook.
pub(crate) fn smbios(xml: &str) -> String {
    let mut domain = Document::parse(xml).unwrap();
    let root = domain.root_mut();
    root.set("os/smbios/@mode", "sysinfo").unwrap();
    let manufacturer = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
    root.set(manufacturer, "Radical Edward").unwrap();
    domain.render()
}
