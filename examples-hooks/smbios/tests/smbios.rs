//! Tests of the hook `smbios`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
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

const WITHOUT_TABLES: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n  <os/>\n  <sysinfo type='smbios'/>\n</domain>\n";

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

#[hooks_sdk_testing::test(Smbios)]
fn annotation_becomes_the_manufacturer_of_the_base_board(hook: Hook) {
    let defined = hook.on_define_domain(&vmi("Radical Edward"), DOMAIN).ok();
    assert_eq!(defined.xml, expected());
    assert_eq!(
        defined.paths(),
        ["/domain/sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']"]
    );
}

#[hooks_sdk_testing::test(Smbios)]
fn without_annotation_xml_is_unchanged(hook: Hook) {
    let without = r#"{"metadata":{"name":"vm"}}"#;
    assert_eq!(hook.on_define_domain(without, DOMAIN).ok().xml, DOMAIN);
}

#[hooks_sdk_testing::test(Smbios)]
fn base_board_and_smbios_mode_are_added_to_a_domain_without_them(hook: Hook) {
    assert_eq!(
        hook.on_define_domain(&vmi("Acme"), WITHOUT_TABLES).ok().xml,
        "<domain type='kvm'>\n  <name>default_vm</name>\n  <os>\n    <smbios mode='sysinfo'/>\n  </os>\n  <sysinfo type='smbios'>\n    <baseBoard>\n      <entry name='manufacturer'>Acme</entry>\n    </baseBoard>\n  </sysinfo>\n</domain>\n"
    );
}

/// The hook declares the base board alone, and a table with it is a change of its own.
#[hooks_sdk_testing::test(Smbios)]
fn a_domain_without_sysinfo_is_refused(hook: Hook) {
    let without_sysinfo = WITHOUT_TABLES.replace("  <sysinfo type='smbios'/>\n", "");
    let denied = hook
        .on_define_domain(&vmi("Acme"), &without_sysinfo)
        .denied();
    assert!(denied.contains("/domain/sysinfo"), "{denied}");
    let without = r#"{"metadata":{"name":"vm"}}"#;
    let unchanged = hook.on_define_domain(without, &without_sysinfo).ok();
    assert_eq!(unchanged.xml, without_sysinfo);
}

#[hooks_sdk_testing::test(Smbios)]
fn second_call_changes_nothing_and_a_new_value_replaces_the_old(hook: Hook) {
    let run = |manufacturer: &str| {
        let defined = hook.on_define_domain(&vmi(manufacturer), &expected());
        defined.ok().xml
    };
    assert_eq!(run("Radical Edward"), expected());
    assert_eq!(
        run("A & B"),
        expected().replace("Radical Edward", "A &amp; B")
    );
}

#[hooks_sdk_testing::test(Smbios)]
fn description_has_name_version_and_hook_points(hook: Hook) {
    let description = hook.description();
    assert_eq!(description.name, "smbios-hook");
    let points: Vec<_> = description
        .hook_points
        .iter()
        .map(|point| point.point.name())
        .collect();
    assert_eq!(points, ["OnDefineDomain"]);
}

#[hooks_sdk_testing::test(Smbios)]
fn parse_error_contains_text_and_position(hook: Hook) {
    let no_vmi = hook.on_define_domain("not JSON", WITHOUT_TABLES).failure();
    assert!(
        no_vmi.contains("the VMI cannot be read: it is not a JSON object"),
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

/// The hook compiled for wasm32-unknown-unknown: the module imports no WASI interface and gives the same output.
#[test]
fn module_without_wasi_imports_only_the_host() {
    let hook = match Hook::build_without_wasi(env!("CARGO_MANIFEST_DIR")) {
        Ok(hook) => hook,
        Err(error) => panic!("{error}"),
    };
    let path = hook.path().unwrap_or_else(|| panic!("it is a module"));
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{error}"));
    let mentions = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
    assert!(!mentions(b"wasi:"), "{}", path.display());
    assert!(mentions(b"virt-hook:hooks/host@0.1.0"));
    let defined = hook.on_define_domain(&vmi("Radical Edward"), DOMAIN).ok();
    assert_eq!(defined.xml, expected());
}
