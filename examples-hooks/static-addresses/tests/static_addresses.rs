//! Tests of the hook `static-addresses`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use hooks_sdk_testing::Hook;
use static_addresses_hook::StaticAddresses;

const VMI: &str = r#"{"metadata": {"name": "vm", "namespace": "infra"}, "spec": {"networks": [
    {"name": "default", "pod": {}}, {"name": "lab", "multus": {"networkName": "infra/lab"}}]}}"#;
const BEFORE: &str = "version: 2\nethernets:\n  eth0: # the first\n    dhcp4: true\n";

fn status(entry: &str) -> String {
    format!(
        r#"[{{"name": "cbr0", "interface": "eth0", "default": true, "ips": ["10.0.0.7"]}}, {entry}]"#
    )
}

#[hooks_sdk_testing::test(StaticAddresses)]
fn addresses_are_set_on_the_interface_with_the_networks_mac(hook: Hook) {
    let entry = r#"{"name": "infra/lab", "ips": ["192.0.2.10", "2001:db8::10"], "mac": "02:00:00:00:00:01"}"#;
    let hook = hook
        .with_network_status(&status(entry))
        .with_config("ipv4-prefix", "16");
    for (before, indent) in [
        (BEFORE.to_owned(), ""),
        (
            format!(
                "network:\n  {}",
                BEFORE.replace('\n', "\n  ").trim_end_matches(' ')
            ),
            "  ",
        ),
    ] {
        let documents = [("network-data", before.as_str())];
        let after = hook.pre_cloud_init_iso(VMI, "noCloud", &documents).ok();
        let lab = [
            "  lab:",
            "    match:",
            "      macaddress: \"02:00:00:00:00:01\"",
            "    dhcp4: false",
            "    addresses:",
            "      - \"192.0.2.10/16\"",
            "      - \"2001:db8::10/64\"",
        ];
        let lab: String = lab.iter().map(|line| format!("{indent}{line}\n")).collect();
        assert_eq!(after["network-data"], format!("{before}{lab}"));
        let repeated = [("network-data", after["network-data"].as_str())];
        let repeated = hook.pre_cloud_init_iso(VMI, "noCloud", &repeated).ok();
        assert_eq!(
            repeated["network-data"], after["network-data"],
            "twice is once"
        );
    }
}

#[hooks_sdk_testing::test(StaticAddresses)]
fn network_without_addresses_is_unchanged(hook: Hook) {
    let hook = hook.with_network_status(&status(
        r#"{"name": "infra/lab", "mac": "02:00:00:00:00:01"}"#,
    ));
    let ran = hook.pre_cloud_init_iso(VMI, "noCloud", &[("network-data", BEFORE)]);
    assert!(ran.logged("infra/lab has no addresses"), "{:?}", ran.log);
    assert_eq!(ran.ok()["network-data"], BEFORE);
}

#[hooks_sdk_testing::test(StaticAddresses)]
fn error_contains_the_name_of_a_missing_network_fact(hook: Hook) {
    let hook = hook.with_network_status(&status(r#"{"name": "infra/lab", "ips": ["192.0.2.10"]}"#));
    let failure = |vmi: &str, before: &str| {
        let documents = [("network-data", before)];
        hook.pre_cloud_init_iso(vmi, "noCloud", &documents)
            .failure()
    };
    let other = VMI.replace("infra/lab", "infra/other");
    let absent = failure(&other, BEFORE);
    assert!(
        absent.contains("network-status/infra/other is not there"),
        "{absent}"
    );
    let no_mac = failure(VMI, BEFORE);
    assert!(no_mac.contains("infra/lab has no MAC address"), "{no_mac}");
}

#[hooks_sdk_testing::test(StaticAddresses)]
fn pod_network_without_network_data_fails_the_hook(hook: Hook) {
    let entry = r#"{"name": "infra/lab", "ips": ["192.0.2.10"], "mac": "02:00:00:00:00:01"}"#;
    let hook = hook.with_network_status(&status(entry));
    let failure = hook.pre_cloud_init_iso(VMI, "noCloud", &[]).failure();
    assert!(failure.contains("give the VMI networkData"), "{failure}");
    let alone = VMI.replace(r#"{"name": "default", "pod": {}}, "#, "");
    let after = hook.pre_cloud_init_iso(&alone, "noCloud", &[]).ok();
    let expected = "version: 2\nethernets:\n  lab:\n    match:\n      macaddress: \"02:00:00:00:00:01\"\n    \
        dhcp4: false\n    addresses:\n      - \"192.0.2.10/24\"\n";
    assert_eq!(after["network-data"], expected);
}
