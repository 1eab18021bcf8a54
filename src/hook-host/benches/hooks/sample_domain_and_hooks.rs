//! The domain that is measured, with the size of a well-equipped virtual machine, and the hooks.

use std::fs;
use std::path::Path;

/// The manufacturer that the hook writes into the domain.
pub(crate) const MANUFACTURER: &str = "Radical Edward";
/// A VMI with the annotation that the hook reads.
pub(crate) const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","annotations":
    {"smbios.vm.kubevirt.io/baseBoardManufacturer":"Radical Edward"}},"spec":{"domain":{}}}"#;

/// Minimum size of the domain XML.
const DOMAIN_XML_BYTES: usize = 15_000;
const FIRST_INPUT: &str = "\t\t<input ";
/// Grants that are narrower than the wishes of the module.
const HOOK_YAML: &str =
    "allow:\n  paths: ['/domain/os/smbios/**', '/domain/sysinfo/baseBoard/**']\n";

/// The domain of the corpus's Windows VM, with additional disks up to [`DOMAIN_XML_BYTES`].
pub(crate) fn domain_xml() -> String {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/vmi-to-domain-xml");
    let mut xml = fs::read_to_string(corpus.join("typical-windows.xml")).unwrap();
    for number in 0.. {
        if xml.len() >= DOMAIN_XML_BYTES {
            break;
        }
        let position = xml.find(FIRST_INPUT).unwrap();
        xml.insert_str(position, &disk(number));
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

/// Writes `count` copies of the module with different digests, each in its own directory with a hook.yaml.
pub(crate) fn write_copies(hooks_dir: &Path, module: &[u8], count: usize) {
    for number in 0..count {
        let dir = hooks_dir.join(format!("hook-sidecar-{number}"));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("smbios.wasm"), with_number(module, number)).unwrap();
        fs::write(dir.join("hook.yaml"), HOOK_YAML).unwrap();
    }
}

/// The module with a custom section at its end, which changes its digest only: a name of 6 bytes with its
/// length, and a number of 4 digits.
fn with_number(module: &[u8], number: usize) -> Vec<u8> {
    let section = format!("\0\u{b}\u{6}number{number:04}");
    [module, section.as_bytes()].concat()
}
