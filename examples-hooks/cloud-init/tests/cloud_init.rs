//! Tests of the hook `cloud-init`, as plain Rust and as a module under wasmtime.
#![allow(missing_docs)]

use cloud_init_hook::Identity;
use hooks_sdk_testing::Hook;

const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"default"}}"#;
const BEFORE: &str = "#cloud-config\n# the owner's\npassword: fedora\nruncmd:\n  - echo hello\n";
const AFTER: &str = r#"#cloud-config
# the owner's
password: fedora
runcmd:
  - echo hello
  - ["sh","-c","cat /etc/kubevirt-hook > /dev/console"]
write_files:
  - path: "/etc/kubevirt-hook"
    permissions: "0644"
    content: "default/vm\n"
"#;
const SCRIPT: &str = "#!/bin/sh\necho hello\n";

fn annotated(name: &str, value: &str) -> String {
    let annotations = hooks_sdk::json!({format!("cloud-init.example.com/{name}"): value});
    hooks_sdk::json!({"metadata": {"name": "vm", "namespace": "default", "annotations": annotations}}).to_string()
}

#[hooks_sdk_testing::test(Identity)]
fn identity_is_added_and_user_data_is_kept(hook: Hook) {
    let documents = [
        ("user-data", BEFORE),
        ("network-data", "version: 2\n"),
        ("meta-data", "{}"),
    ];
    let after = hook.pre_cloud_init_iso(VMI, "noCloud", &documents).ok();
    assert_eq!(after["user-data"], AFTER);
    assert_eq!(
        (after["network-data"].as_str(), after["meta-data"].as_str()),
        ("version: 2\n", "{}")
    );
}

#[hooks_sdk_testing::test(Identity)]
fn second_call_changes_nothing(hook: Hook) {
    let after = hook.pre_cloud_init_iso(VMI, "noCloud", &[("user-data", AFTER)]);
    assert_eq!(after.ok()["user-data"], AFTER);
}

#[hooks_sdk_testing::test(Identity)]
fn user_data_that_is_no_cloud_config_is_unchanged_and_a_warning_is_logged(hook: Hook) {
    let ran = hook.pre_cloud_init_iso(VMI, "configDrive", &[("user-data", SCRIPT)]);
    assert!(ran.logged("no #cloud-config"), "{:?}", ran.log);
    assert_eq!(ran.ok()["user-data"], SCRIPT);
}

#[hooks_sdk_testing::test(Identity)]
fn invalid_write_files_list_fails_the_hook(hook: Hook) {
    let documents = [("user-data", "#cloud-config\nruncmd: x\n")];
    let failure = hook
        .pre_cloud_init_iso(VMI, "noCloud", &documents)
        .failure();
    assert!(
        failure.contains("user-data, line 2: runcmd is not a list"),
        "{failure}"
    );
    assert!(failure.contains("lib.rs:"), "{failure}");
}

#[hooks_sdk_testing::test(Identity)]
fn mtu_is_set_on_every_interface(hook: Hook) {
    for (before, after) in [
        (
            "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n  eth1.5: {}\n",
            "version: 2\nethernets:\n  eth0:\n    dhcp4: true\n    mtu: 9000\n  eth1.5:\n    mtu: 9000\n",
        ),
        (
            "network:\n  ethernets:\n    eth0:\n      mtu: 1500 # as usual\n",
            "network:\n  ethernets:\n    eth0:\n      mtu: 9000 # as usual\n",
        ),
    ] {
        let documents = [("user-data", SCRIPT), ("network-data", before)];
        let ran = hook.pre_cloud_init_iso(&annotated("mtu", "9000"), "noCloud", &documents);
        assert_eq!(ran.ok()["network-data"], after);
    }
}

#[hooks_sdk_testing::test(Identity)]
fn error_contains_an_invalid_mtu(hook: Hook) {
    let documents = [("user-data", BEFORE)];
    let ran = hook.pre_cloud_init_iso(&annotated("mtu", "huge"), "noCloud", &documents);
    let failure = ran.failure();
    assert!(
        failure.contains("cloud-init.example.com/mtu: invalid digit"),
        "{failure}"
    );
}
