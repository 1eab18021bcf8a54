//! The hook as plain Rust, and its module under wasmtime.
#![allow(missing_docs, clippy::unwrap_used)]

use hooks_sdk::{Domain, Hook, Vmi};
use smbios_hook::Smbios;

const DOMAIN: &str = r#"<domain type="kvm">
	<name>default_vm</name>
	<os>
		<type arch="x86_64" machine="q35">hvm</type>
		<smbios mode="sysinfo"></smbios>
	</os>
	<sysinfo type="smbios">
		<system>
			<entry name="manufacturer">KubeVirt</entry>
		</system>
		<bios></bios>
		<baseBoard></baseBoard>
		<chassis></chassis>
	</sysinfo>
	<devices></devices>
</domain>
"#;

const BARE: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>\n";

fn vmi(manufacturer: &str) -> String {
    let annotations =
        hooks_sdk::json!({"smbios.vm.kubevirt.io/baseBoardManufacturer": manufacturer});
    hooks_sdk::json!({"metadata": {"name": "vm", "namespace": "default", "annotations": annotations}}).to_string()
}

fn expected() -> String {
    DOMAIN.replace(
        "\t\t<baseBoard></baseBoard>",
        "\t\t<baseBoard>\n\t\t\t<entry name='manufacturer'>Radical Edward</entry>\n\t\t</baseBoard>",
    )
}

fn run(vmi: &str, domain: &str) -> String {
    let mut domain = Domain::parse(domain).unwrap();
    Smbios
        .on_define_domain(&Vmi::parse(vmi).unwrap(), &mut domain)
        .unwrap();
    domain.render()
}

#[test]
fn the_annotation_becomes_the_boards_manufacturer() {
    assert_eq!(run(&vmi("Radical Edward"), DOMAIN), expected());
}

#[test]
fn without_the_annotation_nothing_changes() {
    assert_eq!(run(r#"{"metadata":{"name":"vm"}}"#, DOMAIN), DOMAIN);
}

#[test]
fn a_domain_without_sysinfo_gets_one_and_reads_it() {
    assert_eq!(
        run(&vmi("Acme"), BARE),
        "<domain type='kvm'>\n  <name>default_vm</name>\n  <os>\n    <smbios mode='sysinfo'/>\n  </os>\n  <sysinfo type='smbios'>\n    <baseBoard>\n      <entry name='manufacturer'>Acme</entry>\n    </baseBoard>\n  </sysinfo>\n</domain>\n"
    );
}

#[test]
fn twice_is_once_and_another_value_replaces() {
    assert_eq!(run(&vmi("Radical Edward"), &expected()), expected());
    assert_eq!(
        run(&vmi("A & B"), &expected()),
        expected().replace("Radical Edward", "A &amp; B")
    );
}

#[test]
fn the_module_says_what_it_is() {
    let hook = hooks_sdk::testing::module!();
    let description = hook.description();
    assert_eq!(description.name, "smbios-hook");
    let points: Vec<_> = description
        .hook_points
        .iter()
        .map(|point| point.point.name())
        .collect();
    assert_eq!(points, ["OnDefineDomain"]);
}

#[test]
fn the_module_does_the_same_under_wasmtime() {
    let hook = hooks_sdk::testing::module!();
    let defined = hook.on_define_domain(&vmi("Radical Edward"), DOMAIN).ok();
    assert_eq!(defined.xml, expected());
    let paths: Vec<_> = defined
        .changes
        .iter()
        .map(|change| change.path.as_str())
        .collect();
    assert_eq!(
        paths,
        ["/domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']"]
    );
    assert!(hook.on_define_domain("{}", BARE).ok().changes.is_empty());
}

#[test]
fn what_it_cannot_read_fails_with_text_and_place() {
    let hook = hooks_sdk::testing::module!();
    let no_vmi = hook.on_define_domain("not JSON", BARE).failure();
    assert!(
        no_vmi.contains("the VMI cannot be read: expected"),
        "{no_vmi}"
    );
    let no_domain = hook
        .on_define_domain(&vmi("x"), "<domain>\n<name>")
        .failure();
    assert!(
        no_domain.contains("line 2, column 1: <name> is not closed"),
        "{no_domain}"
    );
}
