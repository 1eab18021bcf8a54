//! A module built against WIT 0.1.1 runs, with the hook points and interfaces that this version added.

use hooks_sdk_testing::{Hook, hook_host};
use tests::binaries::workspace;

use crate::vmi;

/// The module that uses everything that WIT 0.1.1 adds.
fn every_point_hook_of_0_1_1() -> Hook {
    let module = workspace().join("tests/fixtures/modules-of-wit-0.1.1/every_point.wasm");
    Hook::load(module).unwrap()
}

#[test]
fn a_module_of_0_1_1_sees_attached_devices() {
    let disk = "<disk type='file' device='disk'><source file='/a'/><target dev='sda'/></disk>";
    let hook = every_point_hook_of_0_1_1();
    let attached = hook.on_attach_device(&vmi(""), disk).ok();
    assert!(attached.xml.contains("cache='none'"), "{}", attached.xml);
    let veto = hook.on_attach_device(&vmi("veto"), disk).veto();
    assert_eq!(veto, "no more devices");
}

#[test]
fn a_module_of_0_1_1_tunes_migrations() {
    let before = hook_host::MigrationParameters::default();
    let hook = every_point_hook_of_0_1_1();
    let after = hook.pre_migration_source(&vmi(""), &before).ok();
    assert_eq!(
        (after.bandwidth, after.allow_auto_converge),
        (64 << 20, true)
    );
    let veto = hook.pre_migration_source(&vmi("veto"), &before).veto();
    assert_eq!(veto, "it stays here");
}

#[test]
fn functions_of_an_optional_interface_without_a_grant_return_denied() {
    let run = every_point_hook_of_0_1_1().pre_start(&vmi("ask for everything"));
    for fact in [
        "annotation",
        "label",
        "networks",
        "default network",
        "network info",
    ] {
        let is_denied = |line: &str| line.contains(&format!("{fact}: Err(Denied("));
        let lines = run.log.iter().map(|line| format!("{line:?}"));
        assert!(
            lines.into_iter().any(|line| is_denied(&line)),
            "{fact}: {:?}",
            run.log
        );
    }
    run.ok();
}

#[test]
fn a_module_of_0_1_1_reads_facts_about_the_pod() {
    let hook = every_point_hook_of_0_1_1().with_pod_label("tier", "gold");
    let outcome = hook.pre_start(&vmi("pod"));
    assert!(
        outcome.logged("the pod's tier is gold"),
        "{:?}",
        outcome.log
    );
    outcome.ok();
}
