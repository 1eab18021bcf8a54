//! Modules built against versions 0.1.x of the WIT, in `fixtures/modules-of-wit-0.1*`, must run on every later host.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use hooks_sdk_testing::{Deployment, Hook, hook_host};
use tests::binaries::workspace;

/// Each released WIT file and its SHA-256 digest. A release adds a line. Existing lines are never edited, since built
/// modules refer to these files. Additions to the WIT go into a new file, such as `v0.1.2`.
const RELEASED_WIT_FILES: &[(&str, &str)] = &[(
    "hooks-sdk/wit/v0.1/hooks.wit",
    "sha256:e931ed33b05e0a9ff52b20b3ea5af99f9e612835179834b03c0901f099b9abef",
)];

const DOMAIN: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n  <os/>\n</domain>\n";

fn fixture(name: &str) -> PathBuf {
    workspace()
        .join("tests/fixtures/modules-of-wit-0.1")
        .join(name)
}

/// The module that uses everything that WIT 0.1.1 adds.
fn every_point_hook_of_0_1_1() -> Hook {
    let module = workspace().join("tests/fixtures/modules-of-wit-0.1.1/every_point.wasm");
    Hook::load(module).unwrap()
}

fn every_point_hook() -> Hook {
    Hook::load(fixture("every_point.wasm")).unwrap()
}

fn vmi(action: &str) -> String {
    serde_json::json!({"metadata": {"name": "vm", "annotations": {"do": action}}}).to_string()
}

#[test]
fn the_released_texts_of_the_wit_are_unchanged() {
    for (file, digest) in RELEASED_WIT_FILES {
        let text = std::fs::read(workspace().join(file)).unwrap();
        let actual = image_layout::sha256(&text).to_string();
        assert_eq!(&actual, digest, "{file}");
    }
}

#[test]
fn description_is_read() {
    let hook = every_point_hook();
    let description = hook.description();
    assert_eq!(description.name, "every \"point\"");
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
            ("Shutdown", -5)
        ]
    );
}

#[test]
fn veto_failure_panic_and_log_are_distinguished() {
    let invocation = hook_host::Invocation {
        reason: hook_host::Reason::MigrationTarget,
        ..hook_host::Invocation::default()
    };
    let hook = every_point_hook().with_invocation(invocation);
    assert_eq!(hook.pre_start(&vmi("veto")).veto(), "licence expired");
    let failure = hook.pre_start(&vmi("fail")).failure();
    assert!(failure.contains("no licence server (at "), "{failure}");
    let panic = hook.pre_start(&vmi("panic")).failure();
    assert!(panic.contains("a wheel came off"), "{panic}");
    let outcome = hook.pre_start(&vmi("nothing"));
    assert!(
        outcome.logged("vm may start: MigrationTarget"),
        "{:?}",
        outcome.log
    );
    outcome.ok();
    let shutdown = hook.shutdown().failure();
    assert!(
        shutdown.contains("shutting down is never easy"),
        "{shutdown}"
    );
}

#[test]
fn changed_documents_and_domain_are_returned() {
    let hook = every_point_hook().with_config("colour", "blue");
    let documents = [("user-data", "u"), ("meta-data", "{}")];
    let after = hook
        .pre_cloud_init_iso(&vmi(""), "configDrive", &documents)
        .ok();
    assert_eq!(after["network-data"], "# configDrive\n");
    assert_eq!((&*after["user-data"], &*after["meta-data"]), ("u", "{}"));
    let defined = hook.on_define_domain(&vmi(""), DOMAIN).ok();
    assert_eq!(
        defined.paths(),
        ["/domain/title", "/domain/qemu:commandline"]
    );
}

#[test]
fn a_module_without_wasi_imports_runs_in_a_chain() {
    let vmi =
        r#"{"metadata":{"annotations":{"smbios.vm.kubevirt.io/baseBoardManufacturer":"Acme"}}}"#;
    let deployment = Deployment::new(fixture("smbios.wasm"));
    let (xml, runs) = deployment.on_define_domain(vmi, DOMAIN).unwrap();
    assert!(
        xml.contains("<entry name='manufacturer'>Acme</entry>"),
        "{xml}"
    );
    assert_eq!(runs.len(), 1);
}

#[test]
fn a_module_in_c_runs() {
    let hook = Hook::load(fixture("genid.wasm")).unwrap();
    let vmi = |id: &str| {
        let annotations = serde_json::json!({"genid.vm.example.com/generation-id": id});
        serde_json::json!({"metadata": {"name": "vm", "annotations": annotations}}).to_string()
    };
    let id = "6a1b5fd0-2a2e-4f21-9c3e-0f0d5a5c6d01";
    hook.pre_start(&vmi(id)).ok();
    assert!(!hook.pre_start(&vmi("none")).veto().is_empty());
    let defined = hook.on_define_domain(&vmi(id), DOMAIN).ok();
    assert!(
        defined.xml.contains(&format!("<genid>{id}</genid>")),
        "{}",
        defined.xml
    );
}

#[test]
fn a_module_in_go_runs() {
    let compressed = std::fs::File::open(fixture("go-smbios.wasm.gz")).unwrap();
    let temp_dir = tempfile::tempdir().unwrap();
    let module = temp_dir.path().join("smbios.wasm");
    let mut file = std::fs::File::create(&module).unwrap();
    std::io::copy(&mut flate2::read::GzDecoder::new(compressed), &mut file).unwrap();
    let vmi =
        r#"{"metadata":{"annotations":{"smbios.vm.kubevirt.io/baseBoardManufacturer":"Acme"}}}"#;
    let defined = Hook::load(module)
        .unwrap()
        .on_define_domain(vmi, DOMAIN)
        .ok();
    let entry = "<entry name='manufacturer'>Acme</entry>";
    assert!(
        defined.xml.replace('"', "'").contains(entry),
        "{}",
        defined.xml
    );
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

#[test]
fn error_for_the_former_package_name_contains_the_new_one() {
    let module = workspace().join("tests/fixtures/modules-of-former-wit-package/smbios.wasm");
    let error = format!("{:#}", Hook::load(module).err().unwrap());
    assert!(
        error.contains("built for kubevirt:hooks@0.1.0")
            && error.contains("called virt-hook:hooks@0.1.0 now: build it again"),
        "{error}"
    );
}
