//! `check`, on a hook that is sound and on one that is not.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{smbios, text, virt_hook, vmi, write};

fn verdict<'a>(json: &'a Value, check: &str) -> &'a Value {
    let findings = json["result"]["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == check);
    finding.unwrap_or_else(|| panic!("{check}: {json:#}"))
}

#[test]
fn a_sound_hook_passes_everything() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let checked = virt_hook(&["check", text(&module), "--vmi", text(&vmi), "--json"]);
    let json = checked.json();
    assert_eq!(checked.code, 0, "{}", checked.out);
    for check in [
        "size",
        "world",
        "compiling",
        "hook points",
        "wishes and imports",
        "runs",
        "changes",
        "idempotent",
        "limits",
        "migration",
        "schema",
        "libvirt",
        "after libvirt",
    ] {
        assert_eq!(
            verdict(&json, check)["verdict"],
            "passed",
            "{check}: {json:#}"
        );
    }
    // The VMI needs one of its two wishes.
    assert_eq!(json["result"]["verdict"], "doubtful", "{json:#}");
    let shown = virt_hook(&[
        "check",
        text(&module),
        "--vmi",
        text(&vmi),
        "--without-libvirt",
    ]);
    let shown = shown.ok();
    let last = shown.lines().last().unwrap();
    assert_eq!(last, "doubtful: 1 (wishes) of 11 checks", "{shown}");
}

#[test]
fn a_refused_vmi_is_a_finding_and_the_others_are_checked() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    // No disk has this volume.
    let refused = super::VMI.replace("spec:\n", "spec:\n  architecture: vax\n");
    let refused = write(temp_dir.path(), "refused/vmi.yaml", &refused);
    let check = || {
        let arguments = ["check", text(&module), "--without-libvirt", "--json"];
        virt_hook(
            &[
                &arguments[..],
                &["--vmi", text(&refused), "--vmi", text(&vmi)],
            ]
            .concat(),
        )
    };
    let checked = check();
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    let json = checked.json();
    assert!(
        verdict(&json, "VMIs")["details"]
            .to_string()
            .contains("vax"),
        "{json:#}"
    );
    let runs = verdict(&json, "runs");
    assert!(
        runs["message"].as_str().unwrap().starts_with("7 VMIs"),
        "{runs}"
    );
    // A case that is about the refusal.
    write(
        temp_dir.path(),
        "refused/expected.error",
        "the architecture vax\n",
    );
    let json = check().json();
    assert!(
        json.to_string().contains("\"runs\"") && !json.to_string().contains("\"VMIs\""),
        "{json:#}"
    );
}

#[test]
fn unused_wishes_are_reported() {
    let json = virt_hook(&["check", text(&smbios()), "--json", "--without-libvirt"]).json();
    let wishes = verdict(&json, "wishes");
    assert_eq!(wishes["verdict"], "doubtful");
    assert!(wishes["message"].as_str().unwrap().contains("--vmi"));
    assert_eq!(wishes["details"].as_array().unwrap().len(), 2);
}

#[test]
fn the_rules_of_a_policy_hold_in_the_namespace() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let policy = write(
        temp_dir.path(),
        "policy.yaml",
        "allow: {paths: []}\nrules:\n- namespaces: [ns]\n  allow: {paths: ['/domain/**']}\n",
    );
    let check = |more: &[&str]| {
        let always = [
            "check",
            text(&module),
            "--without-libvirt",
            "--policy",
            text(&policy),
        ];
        virt_hook(&[&always[..], more].concat())
    };
    check(&["--vmi", text(&vmi)]).ok();
    check(&["--namespace", "ns"]).ok();
    for elsewhere in [&[][..], &["--vmi", text(&vmi), "--namespace", "b"]] {
        let checked = check(elsewhere);
        assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
        let finding = "FAILED       policy: ";
        assert!(checked.out.contains(finding), "{}", checked.out);
        assert!(checked.out.contains("it wants the path"), "{}", checked.out);
    }
    let other = fs::read_to_string(&vmi).unwrap();
    let other = write(
        temp_dir.path(),
        "other.yaml",
        &other.replace("namespace: ns", "namespace: b"),
    );
    let both = check(&["--vmi", text(&vmi), "--vmi", text(&other)]);
    assert_eq!(both.code, 2, "{}{}", both.out, both.err);
    assert!(both.err.contains("--namespace"), "{}", both.err);
}

/// Adds a title each time, which is neither idempotent nor what libvirt takes twice.
#[test]
fn a_hook_that_does_more_each_time_fails() {
    let module = misbehaving_hook();
    let checked = virt_hook(&["check", text(&module)]);
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    assert!(
        checked.out.contains("FAILED       idempotent: ")
            && checked.out.contains("performance: the second time, ")
            && checked.out.contains("/domain has several <title>")
            && checked.out.contains("FAILED       migration: ")
            && checked.out.contains("ok           libvirt: ")
            && checked.out.contains("FAILED       after libvirt: "),
        "{}",
        checked.out
    );
    // The cause is stated once; what follows from it has a line each.
    let consequence = ": probably a consequence of `idempotent`";
    assert_eq!(
        checked.out.matches(consequence).count(),
        2,
        "{}",
        checked.out
    );
    assert!(checked.err.contains("checks failed"), "{}", checked.err);
}

#[test]
fn a_failure_on_a_vmi_of_the_author_fails_unless_it_is_expected() {
    let place = tempfile::tempdir().unwrap();
    let fails = super::VMI.replace("do: nothing", "do: fail");
    let vmi = write(place.path(), "case/vmi.yaml", &fails);
    let module = place.path().join("hook/every.wasm");
    write(place.path(), "hook/hook.yaml", "{}\n");
    fs::copy(super::served_sidecar::every_point(), &module).unwrap();
    let runs = |settings: &str| {
        write(place.path(), "hook/hook.yaml", settings);
        let arguments = ["check", text(&module), "--vmi", text(&vmi)];
        let json = virt_hook(&[&arguments[..], &["--without-libvirt", "--json"]].concat()).json();
        verdict(&json, "runs").clone()
    };
    // It needs this configuration.
    let everywhere = runs("{}\n");
    assert_eq!(everywhere["verdict"], "failed", "{everywhere:#}");
    assert_eq!(everywhere["message"], "it fails on every VMI");
    let configured = "config: {colour: red}\n";
    let of_author = runs(configured);
    assert_eq!(of_author["verdict"], "failed", "{of_author:#}");
    assert_ne!(of_author["message"], "it fails on every VMI");
    write(place.path(), "case/expected.error", "no licence server\n");
    let expected = runs(configured);
    assert_eq!(expected["verdict"], "doubtful", "{expected:#}");
}

#[test]
fn a_hook_that_refuses_every_vmi_is_not_called_idempotent() {
    let module = super::served_sidecar::example("required-label-hook");
    let json = virt_hook(&["check", text(&module), "--json", "--without-libvirt"]).json();
    let idempotent = verdict(&json, "idempotent");
    assert_eq!(idempotent["verdict"], "not-checked", "{json:#}");
}

/// The target of a migration is another node, and its VMI says so.
#[test]
fn a_hook_that_shows_the_guest_its_node_cannot_migrate() {
    let vmi = super::VMI.replace("do: nothing", "misbehaving.example.com/writes-node: ''")
        + "status: {nodeName: node-1, phase: Scheduled}\n";
    let (json, details) = refused_migration(&vmi);
    assert!(
        details.contains("vmi.yaml: /domain/genid: node-1 becomes another-node"),
        "{details}"
    );
    let idempotent = verdict(&json, "idempotent")["details"].to_string();
    assert!(!idempotent.contains("vmi.yaml"), "{idempotent}");
}

/// The target of a migration calls PreStart too.
#[test]
fn a_hook_that_refuses_the_target_cannot_migrate() {
    let refuses = "misbehaving.example.com/writes-node: ''\n    misbehaving.example.com/refuses-migration: ''";
    let (_, details) = refused_migration(&super::VMI.replace("do: nothing", refuses));
    assert!(
        details.contains("vmi.yaml: hook ")
            && details.contains(" refuses at PreStart: no visitors"),
        "{details}"
    );
}

/// The findings about a VMI that the misbehaving module keeps from migrating, and what is wrong.
fn refused_migration(vmi: &str) -> (Value, String) {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = write(temp_dir.path(), "vmi.yaml", vmi);
    let module = misbehaving_hook();
    let arguments = ["check", text(&module), "--vmi", text(&vmi), "--json"];
    let json = virt_hook(&[&arguments[..], &["--without-libvirt"]].concat()).json();
    let finding = verdict(&json, "migration");
    assert_eq!(finding["verdict"], "failed", "{json:#}");
    let details = finding["details"].to_string();
    (json, details)
}

/// What the hook changed, and libvirt's own words.
#[test]
fn a_domain_that_libvirt_refuses_is_shown_with_the_change_and_the_reason() {
    let temp_dir = tempfile::tempdir().unwrap();
    // libvirt takes no native IO with a cache.
    let vmi = "metadata:\n  name: vm\n  namespace: ns\n  annotations: {disk-tuning.example.com/cache: writeback}\n\
        spec:\n  domain:\n    memory: {guest: 64Mi}\n    \
        devices: {disks: [{name: d, io: native, cache: none, disk: {bus: virtio}}]}\n  \
        volumes: [{name: d, emptyDisk: {capacity: 1Gi}}]\n";
    let vmi = write(temp_dir.path(), "vmi.yaml", vmi);
    let module = super::served_sidecar::example("disk-tuning-hook");
    let checked = virt_hook(&["check", text(&module), "--vmi", text(&vmi), "--json"]);
    let json = checked.json();
    let finding = verdict(&json, "libvirt");
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
        let finding = verdict(&json, check);
        assert_eq!(finding["verdict"], "not-checked", "{json:#}");
        assert!(
            finding["message"].as_str().unwrap().contains(part),
            "{json:#}"
        );
    }
}

#[test]
fn component_without_hook_exports_fails_the_world_check() {
    let temp_dir = tempfile::tempdir().unwrap();
    let empty_component = "\0asm\r\0\u{1}\0";
    let component = write(temp_dir.path(), "x.wasm", empty_component);
    let checked = virt_hook(&["check", text(&component), "--json"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert_eq!(verdict(&checked.json(), "world")["verdict"], "failed");
}

/// One VMI whose data is in a Secret does not end the checks of the others.
#[test]
fn cloud_init_data_that_is_not_here_is_a_finding() {
    let place = tempfile::tempdir().unwrap();
    let volume = "    devices: {disks: [{name: seed, disk: {bus: virtio}}]}\n";
    let vmi = super::VMI.replace("    devices: {}\n", volume)
        + "  volumes:\n  - name: seed\n    cloudInitNoCloud: {secretRef: {name: web-data}}\n";
    let vmi = write(place.path(), "vmi.yaml", &vmi);
    let check = |module: &Path| {
        let arguments = ["check", text(module), "--vmi", text(&vmi)];
        virt_hook(&[&arguments[..], &["--without-libvirt", "--json"]].concat()).json()
    };
    let json = check(&super::served_sidecar::example("cloud-init-hook"));
    let finding = verdict(&json, "cloud-init");
    assert_eq!(finding["verdict"], "not-checked", "{json:#}");
    let details = finding["details"].to_string();
    assert!(details.contains("the Secret web-data"), "{details}");
    assert_eq!(verdict(&json, "idempotent")["verdict"], "passed");
    // A hook that does not read it.
    let json = check(&smbios());
    let findings = json["result"]["findings"].as_array().unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding["check"] != "cloud-init")
    );
}

pub(super) fn misbehaving_hook() -> std::path::PathBuf {
    let target = tests::binaries::target_dir().join("hooks");
    let built = std::process::Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "-p",
            "misbehaving-hook",
            "--profile",
            "hook",
        ])
        .args(["--target", "wasm32-wasip2", "--target-dir"])
        .arg(&target)
        .current_dir(tests::binaries::workspace())
        .status();
    assert!(built.unwrap().success());
    Path::new(&target).join("wasm32-wasip2/hook/misbehaving_hook.wasm")
}
