//! All functions of the WIT, under wasmtime.
#![allow(missing_docs, clippy::unwrap_used)]

use hooks_sdk_testing::{Hook, hook_host};

const DOMAIN: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n</domain>\n";

fn hook() -> Hook {
    Hook::build_example(
        concat!(env!("CARGO_MANIFEST_DIR"), "/.."),
        "hook_at_every_point",
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

fn vmi(what: &str) -> String {
    hooks_sdk::json!({"metadata": {"name": "vm", "annotations": {"do": what}}}).to_string()
}

#[test]
fn the_description_arrives() {
    let hook = hook();
    let description = hook.description();
    assert_eq!(
        (description.name.as_str(), description.version.as_str()),
        ("every \"point\"", env!("CARGO_PKG_VERSION"))
    );
    let points: Vec<_> = description
        .hook_points
        .iter()
        .map(|point| (point.point.name(), point.priority))
        .collect();
    assert_eq!(
        points,
        [
            ("PreStart", 0),
            ("PreCloudInitIso", 0),
            ("OnDefineDomain", 0),
            ("OnAttachDevice", 0),
            ("PreMigrationSource", 0),
            ("Shutdown", -5)
        ]
    );
}

#[test]
fn a_veto_a_failure_and_a_panic_are_three_things() {
    let hook = hook();
    assert_eq!(hook.pre_start(&vmi("veto")).veto(), "licence expired");
    let failure = hook.pre_start(&vmi("fail")).failure();
    assert!(
        failure.contains("no licence server (at ") && failure.contains("hook_at_every_point.rs:"),
        "{failure}"
    );
    let failure = hook.pre_start(&vmi("parse")).failure();
    assert!(
        failure.contains("reading the name: invalid digit"),
        "{failure}"
    );
    let panic = hook.pre_start(&vmi("panic")).failure();
    assert!(
        panic.contains("crashed")
            && panic.contains("a wheel came off")
            && panic.contains("hook_at_every_point.rs:"),
        "{panic}"
    );
    assert!(
        hook.shutdown()
            .failure()
            .contains("shutting down is never easy")
    );
}

#[test]
fn log_and_invocation_pass_through() {
    let invocation = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..Default::default()
    };
    let ran = hook()
        .with_invocation(invocation)
        .pre_start(&vmi("nothing"));
    assert!(
        ran.log
            .iter()
            .any(|line| line.message == "vm may start: MigrationTarget"),
        "{:?}",
        ran.log
    );
    ran.ok();
}

#[test]
fn documents_come_back_all_of_them() {
    let after = hook()
        .pre_cloud_init_iso(
            &vmi(""),
            "configDrive",
            &[("user-data", "u"), ("meta-data", "{}")],
        )
        .ok();
    let after: Vec<_> = after
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        after,
        [
            ("meta-data", "{}"),
            ("network-data", "# configDrive\n"),
            ("user-data", "u")
        ]
    );
}

#[test]
fn the_domain_comes_back_with_what_was_configured() {
    let bare = hook().on_define_domain(&vmi(""), DOMAIN).failure();
    assert!(bare.contains("no colour is configured"), "{bare}");
    let defined = hook()
        .with_config("colour", "blue")
        .on_define_domain(&vmi(""), DOMAIN)
        .ok();
    assert_eq!(
        defined.paths(),
        ["/domain/title", "/domain/qemu:commandline"]
    );
}

const DISK: &str = "<disk type='file'><target dev='sda'/><alias name='ua-data'/></disk>";

#[test]
fn an_attached_device_comes_back_as_the_same_device() {
    let invocation = hook_host::Invocation {
        reason: hook_host::Reason::Hotplug,
        ..Default::default()
    };
    let hook = hook().with_invocation(invocation);
    let ran = hook.on_attach_device(&vmi(""), DISK);
    assert!(ran.logged("Hotplug: Some(\"data\")"), "{:?}", ran.log);
    let attached = ran.ok();
    assert_eq!(
        attached.xml,
        DISK.replace("</disk>", "<driver cache='none'/></disk>")
    );
    assert_eq!(
        hook.on_attach_device(&vmi("veto"), DISK).veto(),
        "no more devices"
    );
    let refusal = hook
        .on_attach_device(&vmi("identity"), DISK)
        .result
        .unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains("/domain/devices/disk/target was"),
        "{refusal}"
    );
    let interface = "<interface type='ethernet'><target dev='tap0'/></interface>";
    let denied = hook.on_attach_device(&vmi(""), interface).denied();
    assert!(denied.contains("/domain/devices/interface"), "{denied}");
}

#[test]
fn a_migration_comes_back_with_what_is_declared() {
    let before = hook_host::MigrationParameters::default();
    let after = hook().pre_migration_source(&vmi(""), &before).ok();
    assert_eq!((after.bandwidth, after.max_downtime), (64 << 20, 900));
    assert!(after.allow_auto_converge && !after.allow_post_copy);
    let veto = hook().pre_migration_source(&vmi("veto"), &before).veto();
    assert_eq!(veto, "it stays here");
    let denied = hook().pre_migration_source(&vmi("more"), &before).denied();
    assert!(
        denied
            .contains("Description::with_migration_parameters([MigrationParameter::MaxDowntime])"),
        "{denied}"
    );
}
