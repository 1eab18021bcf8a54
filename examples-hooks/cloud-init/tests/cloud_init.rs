//! The hook as plain Rust, and its module under wasmtime.
#![allow(missing_docs, clippy::unwrap_used)]

use cloud_init_hook::Identity;
use hooks_sdk::host::{Level, native};
use hooks_sdk::{CloudInit, Hook, Vmi};

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

fn run(user_data: &str) -> String {
    let documents = vec![("user-data".to_owned(), user_data.to_owned())];
    let mut cloud_init = CloudInit::new("noCloud", documents);
    Identity
        .pre_cloud_init_iso(&Vmi::parse(VMI).unwrap(), &mut cloud_init)
        .unwrap();
    cloud_init.user_data().to_owned()
}

#[test]
fn the_guest_is_told_who_it_is_and_keeps_its_own_user_data() {
    assert_eq!(run(BEFORE), AFTER);
}

#[test]
fn twice_is_once() {
    assert_eq!(run(AFTER), AFTER);
}

#[test]
fn user_data_of_another_kind_is_left_alone_and_it_says_so() {
    assert_eq!(run(SCRIPT), SCRIPT);
    let log = native::take_log();
    assert!(
        matches!(&log[..], [(Level::Warn, text)] if text.contains("no #cloud-config")),
        "{log:?}"
    );
}

#[test]
fn the_module_does_the_same_under_wasmtime() {
    let hook = hooks_sdk::testing::module!();
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

#[test]
fn the_modules_log_reaches_the_host() {
    let hook = hooks_sdk::testing::module!();
    let ran = hook.pre_cloud_init_iso(VMI, "configDrive", &[("user-data", SCRIPT)]);
    assert!(
        ran.log
            .iter()
            .any(|line| line.message.contains("no #cloud-config")),
        "{:?}",
        ran.log
    );
    assert_eq!(ran.ok()["user-data"], SCRIPT);
}

#[test]
fn a_list_that_cannot_take_an_item_fails_the_hook_rather_than_the_guest() {
    let hook = hooks_sdk::testing::module!();
    let failure = hook
        .pre_cloud_init_iso(
            VMI,
            "noCloud",
            &[("user-data", "#cloud-config\nruncmd: x\n")],
        )
        .failure();
    assert!(
        failure.contains("user data, line 2: runcmd is no list"),
        "{failure}"
    );
    assert!(failure.contains("lib.rs:"), "{failure}");
}
