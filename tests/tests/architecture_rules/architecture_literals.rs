//! Only `convert/arch` in `domain` depends on the architecture: no other code has a literal or a name that only one has.

use std::path::Path;

use tests::binaries::workspace;

use crate::source_rules::sources;

/// Where architectures may be named.
const ARCHITECTURES: &str = "convert/arch/";

/// Text that only code for one architecture contains.
///
/// Some names of amd64 are missing because other architectures have them, too, or because KubeVirt uses them on every
/// architecture: `qemu-xhci` and `pcie-root-port` (arm64), the domain type `hyperv`, the timers that a VMI lists
/// (`hpet`, `kvmclock`, `hypervclock`), the option `--ovmf-path` and the name of the pipe for the firmware's log
/// (`QEMUSeaBiosDebugPipe`).
const LITERALS: [&str; 28] = [
    // Names of architectures.
    "amd64",
    "x86",
    "i386",
    "arm64",
    "aarch64",
    "Arm64",
    "s390",
    "S390",
    // Machine types.
    "q35",
    "i440fx",
    "\"virt\"",
    "ccw",
    // arm64 has this bus too, but KubeVirt changes it only on amd64.
    "\"pcie-root\"",
    // Devices of these machine types, and their models.
    "ich9",
    "isa-",
    "i6300esb",
    "vmport",
    "\"tpm-crb\"",
    "\"vga\"",
    "\"bochs\"",
    "diag288",
    "vfio-ap",
    // Features of CPUs.
    "mpx",
    "\"tsc\"",
    "invtsc",
    // Firmware.
    "OVMF",
    "AAVMF",
    // Hyper-V's enlightenments; `hypervisor` is another word.
    "hyperv.",
];

/// Files and directories with literals of an architecture that do not make their code depend on it.
const EXCEPTIONS: [(&str, &[&str], &str); 3] = [
    (
        "host_facts.rs",
        &["amd64", "x86", "arm64", "aarch64"],
        "the default for tools and tests, and Go's name for each of Rust's names of architectures",
    ),
    (
        "libvirt_spec/controller.rs",
        &["\"pcie-root\""],
        "the root buses of all architectures in libvirt's XML",
    ),
    (
        "libvirt_spec/features.rs",
        &["vmport"],
        "the element in libvirt's XML, which is set in `convert/arch`",
    ),
];

#[test]
fn domain_depends_on_the_architecture_only_in_arch() {
    let src = workspace().join("src/domain/src");
    let mut used = [false; EXCEPTIONS.len()];
    let mut found = Vec::new();
    for (file, source) in sources(&src) {
        let file = file.strip_prefix(&src).unwrap();
        if file.starts_with(ARCHITECTURES) || is_test(file) {
            continue;
        }
        for (line, literal) in literals(&source) {
            let exception = EXCEPTIONS.iter().position(|(path, literals, _)| {
                file.starts_with(path) && literals.contains(&literal)
            });
            match exception {
                Some(index) => used[index] = true,
                None => found.push(format!("{}:{line}: {literal}", file.display())),
            }
        }
    }
    assert!(
        found.is_empty(),
        "what differs between architectures is a method of `Architecture` in {ARCHITECTURES}: {found:#?}"
    );
    for ((path, _, _), is_used) in EXCEPTIONS.iter().zip(used) {
        assert!(is_used, "the exception for {path} is not needed any more");
    }
}

#[test]
fn literals_are_found_in_code_only() {
    let source = "/// The q35 machine type.\nlet machine = \"pc-q35-9.2\"; // amd64\n\n\
        let url = \"http://x86.example\";\nlet port = \"pcie-root-port\";\n\
        #[cfg(test)]\nmod tests;\nlet watchdog = source.i6300esb;\n\
        #[cfg(test)]\nmod tests {\n    const GUEST: &str = \"amd64\";\n}\n";
    let found: Vec<_> = literals(source).collect();
    assert_eq!(found, [(2, "q35"), (4, "x86"), (8, "i6300esb")]);
}

/// The literals of architectures in code, with the numbers of their lines.
fn literals(source: &str) -> impl Iterator<Item = (usize, &'static str)> {
    let code = source.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines().map(without_comment);
    lines.enumerate().flat_map(|(index, line)| {
        LITERALS
            .into_iter()
            .filter(move |literal| line.contains(literal))
            .map(move |literal| (index + 1, literal))
    })
}

fn without_comment(line: &str) -> &str {
    match line.trim_start().starts_with("//") {
        true => "",
        false => line.split(" // ").next().unwrap_or_default(),
    }
}

/// Whether a file contains only tests.
fn is_test(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.iter().any(|part| part == "tests")
}
