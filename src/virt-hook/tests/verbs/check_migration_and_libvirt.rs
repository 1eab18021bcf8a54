//! `check`: whether a VM with the hook can migrate, and what libvirt says.

use serde_json::Value;

use super::check::finding_of;
use super::example_modules::{example, misbehaving_hook};
use super::{VMI, smbios, text, virt_hook, write};

/// The target of a migration is another node, with another VMI status.
#[test]
fn a_hook_that_shows_the_guest_its_node_fails_the_migration_check() {
    let vmi = VMI.replace("do: nothing", "misbehaving.example.com/writes-node: ''")
        + "status: {nodeName: node-1, phase: Scheduled}\n";
    let (json, details) = refused_migration(&vmi);
    assert!(
        details.contains("vmi.yaml: /domain/genid: node-1 becomes another-node"),
        "{details}"
    );
    let idempotent = finding_of(&json, "idempotent")["details"].to_string();
    assert!(!idempotent.contains("vmi.yaml"), "{idempotent}");
}

/// The target of a migration calls the hook at PreStart, too.
#[test]
fn a_hook_that_refuses_on_the_target_fails_the_migration_check() {
    let refuses = "misbehaving.example.com/writes-node: ''\n    misbehaving.example.com/refuses-migration: ''";
    let (_, details) = refused_migration(&VMI.replace("do: nothing", refuses));
    assert!(
        details.contains("vmi.yaml: hook ")
            && details.contains(" refuses at PreStart: no visitors"),
        "{details}"
    );
}

/// The report on a VMI with which the misbehaving module cannot migrate, and the details of the finding `migration`.
fn refused_migration(vmi: &str) -> (Value, String) {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = write(temp_dir.path(), "vmi.yaml", vmi);
    let module = misbehaving_hook();
    let arguments = ["check", text(&module), "--vmi", text(&vmi), "--json"];
    let json = virt_hook(&[&arguments[..], &["--without-libvirt"]].concat()).json();
    let finding = finding_of(&json, "migration");
    assert_eq!(finding["verdict"], "failed", "{json:#}");
    let details = finding["details"].to_string();
    (json, details)
}

#[test]
fn a_domain_that_libvirt_refuses_is_shown_with_the_change_and_the_reason() {
    let temp_dir = tempfile::tempdir().unwrap();
    // libvirt accepts no native IO with this cache mode.
    let vmi = "metadata:\n  name: vm\n  namespace: ns\n  annotations: {disk-tuning.example.com/cache: writeback}\n\
        spec:\n  domain:\n    memory: {guest: 64Mi}\n    \
        devices: {disks: [{name: d, io: native, cache: none, disk: {bus: virtio}}]}\n  \
        volumes: [{name: d, emptyDisk: {capacity: 1Gi}}]\n";
    let vmi = write(temp_dir.path(), "vmi.yaml", vmi);
    let module = example("disk-tuning-hook");
    let checked = virt_hook(&["check", text(&module), "--vmi", text(&vmi), "--json"]);
    let json = checked.json();
    let finding = finding_of(&json, "libvirt");
    assert_eq!(finding["verdict"], "failed", "{json:#}");
    let details = finding["details"].to_string();
    assert!(
        details.contains("libvirt says: ")
            && details.contains("io='native'")
            && details.contains("/driver/@cache: none becomes writeback"),
        "{details}"
    );
}

#[test]
fn skipped_checks_are_reported_without_libvirts_tools() {
    let mut program = super::program();
    program.args(["check", text(&smbios()), "--json"]);
    let output = program.env("PATH", "/nonexistent").output().unwrap();
    let checked = super::ProgramOutput::from(output);
    let json = checked.json();
    assert_eq!(checked.code, 0, "{}", checked.out);
    for (check, part) in [("schema", "install"), ("libvirt", "virsh is not installed")] {
        let finding = finding_of(&json, check);
        assert_eq!(finding["verdict"], "not-checked", "{json:#}");
        assert!(
            finding["message"].as_str().unwrap().contains(part),
            "{json:#}"
        );
    }
}
