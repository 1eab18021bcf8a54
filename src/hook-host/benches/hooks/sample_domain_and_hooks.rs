//! What is measured: a domain of the size of a well-equipped virtual machine, and hooks.

use std::fs;
use std::path::Path;

/// What the hook writes into the domain.
pub(crate) const MANUFACTURER: &str = "Radical Edward";
/// A VMI with the annotation that the hook wants.
pub(crate) const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","annotations":
    {"smbios.vm.kubevirt.io/baseBoardManufacturer":"Radical Edward"}},"spec":{"domain":{}}}"#;

const SIZE: usize = 15_000;
const FIRST_INPUT: &str = "\t\t<input ";
/// The grants, which narrow what the module itself wishes for.
const HOOK_YAML: &str = "allow:\n  paths: ['/domain/os/smbios/**', '/domain/sysinfo/**']\n";

/// The corpus's Windows machine with as many disks as make 15 KB.
pub(crate) fn domain_xml() -> String {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let mut xml = fs::read_to_string(corpus.join("typical-windows.xml")).unwrap();
    for number in 0.. {
        if xml.len() >= SIZE {
            break;
        }
        let place = xml.find(FIRST_INPUT).unwrap();
        xml.insert_str(place, &disk(number));
    }
    xml
}

fn disk(number: usize) -> String {
    format!(
        "\t\t<disk device=\"disk\" type=\"block\" model=\"virtio-non-transitional\">\n\
         \t\t\t<source dev=\"/dev/data{number}\"></source>\n\
         \t\t\t<target bus=\"virtio\" dev=\"vd{number}\"></target>\n\
         \t\t\t<serial>serial-{number}</serial>\n\
         \t\t\t<driver cache=\"none\" error_policy=\"stop\" name=\"qemu\" type=\"raw\" io=\"native\" \
         discard=\"unmap\"></driver>\n\
         \t\t\t<alias name=\"ua-data{number}\"></alias>\n\
         \t\t</disk>\n"
    )
}

/// Writes `count` copies of the module, each in a directory of its own with a hook.yaml, and each with another digest.
pub(crate) fn copies(hooks_dir: &Path, module: &[u8], count: usize) {
    for number in 0..count {
        let dir = hooks_dir.join(format!("hook-sidecar-{number}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("smbios.wasm"), numbered(module, number)).unwrap();
        fs::write(dir.join("hook.yaml"), HOOK_YAML).unwrap();
    }
}

/// The module with a custom section at its end, which means nothing to anyone: a name of 6 bytes
/// with its length, and a number of 4 digits.
fn numbered(module: &[u8], number: usize) -> Vec<u8> {
    let section = format!("\0\u{b}\u{6}number{number:04}");
    [module, section.as_bytes()].concat()
}
