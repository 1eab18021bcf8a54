//! Tests of the hook `qemu-args`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
use qemu_args_hook::QemuArgs;

const DOMAIN: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>\n";

fn vmi(name: &str, value: &str) -> String {
    hooks_sdk::json!({"metadata": {"annotations": {name: value}}}).to_string()
}

fn arguments(xml: &str) -> Vec<String> {
    let domain = hooks_sdk::Domain::parse(xml).unwrap_or_else(|error| panic!("{error}"));
    domain.qemu_args()
}

#[hooks_sdk_testing::test(QemuArgs)]
fn annotation_becomes_fw_cfg_argument_with_escaped_commas(hook: Hook) {
    let vmi = vmi("fw-cfg.example.com/com.example/role", "web,db");
    let defined = hook.on_define_domain(&vmi, DOMAIN).ok();
    let expected = ["-fw_cfg", "name=opt/com.example/role,string=web,,db"];
    assert_eq!(arguments(&defined.xml), expected);
    assert_eq!(defined.paths(), ["/domain/qemu:commandline"]);
    let repeated = hook.on_define_domain(&vmi, &defined.xml).ok();
    assert_eq!(repeated.xml, defined.xml);
}

#[hooks_sdk_testing::test(QemuArgs)]
fn existing_qemu_args_are_kept(hook: Hook) {
    let before = "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>";
    let vmi = vmi("qemu.example.com/pci-mmio-mib", "65536");
    let defined = hook.on_define_domain(&vmi, before).ok();
    assert_eq!(
        arguments(&defined.xml),
        ["-S", "-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=65536"]
    );
}

#[hooks_sdk_testing::test(QemuArgs)]
fn without_annotation_xml_is_unchanged(hook: Hook) {
    assert_eq!(hook.on_define_domain("{}", DOMAIN).ok().xml, DOMAIN);
}

#[hooks_sdk_testing::test(QemuArgs)]
fn invalid_annotation_is_refused(hook: Hook) {
    let long = vmi(&format!("fw-cfg.example.com/{}", "x".repeat(51)), "1");
    assert!(
        hook.on_define_domain(&long, DOMAIN)
            .veto()
            .contains("more than 50 bytes")
    );
    let not_a_number = vmi("qemu.example.com/pci-mmio-mib", "1G,id=x");
    assert!(
        hook.on_define_domain(&not_a_number, DOMAIN)
            .failure()
            .contains("pci-mmio-mib: invalid digit")
    );
}
