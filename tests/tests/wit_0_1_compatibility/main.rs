//! Modules built against versions 0.1.x of the WIT, in `fixtures/modules-of-wit-0.1*`, must run on every later host.
#![allow(clippy::unwrap_used)]

mod modules_of_wit_0_1_1;

use std::collections::BTreeMap;
use std::path::PathBuf;

use hooks_sdk_testing::{Deployment, Hook, hook_host};
use tests::binaries::workspace;

/// Each WIT file and its SHA-256 digest. Existing lines are never edited, since built modules refer to these files.
/// Additions to the WIT go into a new file, such as `v0.1.2`.
const WIT_FILES: [(&str, &str); 2] = [
    (
        "v0.1/hooks.wit",
        "sha256:e931ed33b05e0a9ff52b20b3ea5af99f9e612835179834b03c0901f099b9abef",
    ),
    (
        "v0.1.1/optional.wit",
        "sha256:caa9d535f5d84e651c33b1179826e485c8869c2bc0acf64f515a99d49a18a619",
    ),
];
/// The directories of modules that are never built again, each with a file `SHA256SUMS`.
const FIXTURES: [&str; 3] = [
    "modules-of-wit-0.1",
    "modules-of-wit-0.1.1",
    "modules-of-former-wit-package",
];

const DOMAIN: &str = "<domain type='kvm'>\n  <name>default_vm</name>\n  <os/>\n</domain>\n";

fn fixture(name: &str) -> PathBuf {
    workspace()
        .join("tests/fixtures/modules-of-wit-0.1")
        .join(name)
}

fn every_point_hook() -> Hook {
    Hook::load(fixture("every_point.wasm")).unwrap()
}

fn vmi(action: &str) -> String {
    serde_json::json!({"metadata": {"name": "vm", "annotations": {"do": action}}}).to_string()
}

#[test]
fn wit_files_are_unchanged() {
    let directory = workspace().join("hooks-sdk/wit");
    let mut files = BTreeMap::new();
    for version in std::fs::read_dir(&directory).unwrap() {
        for file in std::fs::read_dir(version.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(&directory).unwrap();
            let digest = image_layout::sha256(&std::fs::read(&path).unwrap()).to_string();
            files.insert(name.to_str().unwrap().to_owned(), digest);
        }
    }
    let expected = WIT_FILES.map(|(name, digest)| (name.to_owned(), digest.to_owned()));
    assert_eq!(files, BTreeMap::from(expected));
}

#[test]
fn modules_are_the_bytes_that_were_built() {
    for fixture in FIXTURES {
        let directory = workspace().join("tests/fixtures").join(fixture);
        let mut files = BTreeMap::new();
        for file in std::fs::read_dir(&directory).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.contains(".wasm") {
                let digest = image_layout::sha256(&std::fs::read(&path).unwrap()).to_string();
                files.insert(name, digest);
            }
        }
        let sums = std::fs::read_to_string(directory.join("SHA256SUMS")).unwrap();
        let expected = sums.lines().map(|line| {
            let (digest, name) = line.split_once("  ").unwrap();
            (name.to_owned(), format!("sha256:{digest}"))
        });
        assert_eq!(files, expected.collect(), "{fixture}");
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
fn error_for_the_former_package_name_contains_the_new_one() {
    let module = workspace().join("tests/fixtures/modules-of-former-wit-package/smbios.wasm");
    let error = format!("{:#}", Hook::load(module).err().unwrap());
    assert!(
        error.contains("built for kubevirt:hooks@0.1.0")
            && error.contains("called virt-hook:hooks@0.1.0 now: build it again"),
        "{error}"
    );
}
