//! `virt-hook replay` as its users run it, on records of a real chain.
#![allow(clippy::unwrap_used)]

#[path = "support/example_modules.rs"]
mod example_modules;
#[path = "support/served_sidecar/mod.rs"]
mod served_sidecar;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use example_modules::example;
use hook_host::record::RecordConfig;
use hook_host::{
    Chain, CloudInitDocuments, CollectConfig, Compiler, Invocation, Plugins, Reason, collect,
};
use proto::hooks::v1alpha3::OnDefineDomainParams;
use proto::hooks::v1alpha3::callbacks_client::CallbacksClient;
use serde_json::Value;
use served_sidecar::{Pod, XML, stock_launcher_client, vmi};

/// A chain of the hooks in the pod that records every run.
async fn recording_chain(pod: &Pod) -> Chain {
    let config = CollectConfig {
        hooks_dir: pod.hooks(),
        expected: 1,
        deadline: served_sidecar::TEST_TIMEOUT,
        artifacts_dir: pod.root().join("compiled"),
        compiler: Compiler::InProcess,
        record: Some(RecordConfig {
            dir: pod.root().join("records"),
            secrets: false,
        }),
        ..CollectConfig::default()
    };
    collect(config).await.unwrap()
}

fn invocation() -> Invocation {
    Invocation {
        namespace: "ns".into(),
        name: "vm".into(),
        uid: "u-1".into(),
        domain: "ns_vm".into(),
        ..Invocation::default()
    }
}

/// The only record in a directory.
fn record(dir: &Path) -> PathBuf {
    let mut files: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    files.remove(0).path()
}

/// The record of a run of the smbios example as a module.
async fn smbios_record(pod: &Pod) -> PathBuf {
    fs::copy(
        example("smbios-hook"),
        pod.directory().join("smbios_hook.wasm"),
    )
    .unwrap();
    let chain = recording_chain(pod).await;
    chain
        .on_define_domain(&invocation(), &vmi(), XML.into())
        .await
        .unwrap();
    record(&pod.root().join("records"))
}

/// The smbios example with a text replaced.
fn changed_module(pod: &Pod, from: &str, to: &str) -> PathBuf {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(example("smbios-hook")).unwrap();
    let is_from = |window: &[u8]| window == from.as_bytes();
    let mut record_count = 0;
    while let Some(at) = bytes.windows(from.len()).position(is_from) {
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        record_count += 1;
    }
    assert!(record_count > 0, "{from}");
    let path = pod.root().join("new.wasm");
    fs::write(&path, bytes).unwrap();
    path
}

fn replay(record: &Path, more: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_virt-hook"))
        .arg("replay")
        .arg(record)
        .args(more)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn replay_with_the_recorded_module_shows_no_difference() {
    let pod = Pod::new();
    let record = smbios_record(&pod).await;
    let module = example("smbios-hook");
    let (code, out, err) = replay(&record, &["--module", path(&module)]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\nsame: byte for byte\n"), "{out}");
    assert!(
        out.starts_with("recorded: hook-sidecar-0 (sha256 "),
        "{out}"
    );
    assert!(
        out.contains("at OnDefineDomain for ns/vm (boot): ok, "),
        "{out}"
    );
}

/// A change that a target refuses on an incoming domain is accepted at a boot.
#[tokio::test]
async fn refused_change_of_an_incoming_domain_is_refused_again() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    fs::copy(&module, pod.directory().join("smbios_hook.wasm")).unwrap();
    let chain = recording_chain(&pod).await;
    let arrival = Invocation {
        reason: Reason::MigrationTarget,
        ..invocation()
    };
    let refused = chain
        .on_incoming_domain(&arrival, &vmi(), XML.into(), &Plugins::default())
        .await;
    assert!(refused.unwrap_err().to_string().contains("/domain/"));
    let record = record(&pod.root().join("records"));
    let (code, out, err) = replay(&record, &["--module", path(&module)]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("\nsame: byte for byte\n"), "{out}");
    let mut booted: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    let arrives = booted["input"].as_object_mut().unwrap().remove("arrives");
    assert_eq!(arrives, Some(Value::Bool(true)));
    fs::write(&record, booted.to_string()).unwrap();
    let (code, out, _) = replay(&record, &["--module", path(&module)]);
    assert_eq!(code, 1, "{out}");
}

#[tokio::test]
async fn another_module_shows_its_difference_and_must_be_asked_for() {
    let pod = Pod::new();
    let record = smbios_record(&pod).await;
    let annotation = "smbios.vm.kubevirt.io/baseBoardManufacturer";
    let new = changed_module(&pod, annotation, &annotation.replace("Board", "Bored"));
    let (code, out, err) = replay(&record, &["--module", path(&new)]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("sha256") && err.contains("--hook") && err.contains("new.wasm"),
        "{err}"
    );
    let (code, out, err) = replay(&record, &["--hook", path(&new)]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(
        out.contains("different: - recorded, + replayed\n")
            && out.contains("only recorded\n")
            && out.contains("Radical Edward"),
        "{out}"
    );
    assert!(err.contains("the replay differs"), "{err}");
}

#[tokio::test]
async fn sidecars_record_is_replayed_with_a_ported_module() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let mut served = pod.serve(&[&module], &[]);
    served.wait_until_ready().await;
    let chain = recording_chain(&pod).await;
    chain
        .on_define_domain(&invocation(), &vmi(), XML.into())
        .await
        .unwrap();
    let record = record(&pod.root().join("records"));
    let (code, out, err) = replay(&record, &["--module", path(&module)]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.contains("gRPC sidecar") && err.contains("--hook"),
        "{err}"
    );
    let (code, out, err) = replay(&record, &["--hook", path(&module)]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.contains("(gRPC sidecar v1alpha3)") && out.contains("\nsame: "),
        "{out}"
    );
}

#[tokio::test]
async fn replay_error_contains_a_remedy() {
    let pod = Pod::new();
    let record = smbios_record(&pod).await;
    let (code, _, err) = replay(&record, &[]);
    assert_eq!(code, 2);
    assert!(
        err.contains("--module") && err.contains("smbios_hook.wasm"),
        "{err}"
    );
    let module = example("smbios-hook");
    for (arguments, part) in [
        (["--module", "/nonexistent.wasm"], "/nonexistent.wasm"),
        (["--hook", "/nonexistent.wasm"], "/nonexistent.wasm"),
        (["--hook", path(&record)], path(&record)),
    ] {
        let (code, out, err) = replay(&record, &arguments);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains(part) && err.lines().count() == 1, "{err}");
    }
    let none = pod.root().join("none.json");
    fs::write(&none, "{}").unwrap();
    let (code, _, err) = replay(&none, &["--module", path(&module)]);
    assert!(
        code == 2 && err.contains("none.json") && err.contains("no record"),
        "{err}"
    );
    let (code, ..) = replay(
        &record,
        &["--module", path(&module), "--hook", path(&module)],
    );
    assert_eq!(code, 2);
}

#[tokio::test]
async fn withheld_input_is_not_replayed() {
    let pod = Pod::new();
    let module = example("cloud-init-hook");
    fs::copy(&module, pod.directory().join("cloud.wasm")).unwrap();
    let chain = recording_chain(&pod).await;
    let documents = CloudInitDocuments {
        data_source: "noCloud".into(),
        cloud_init_data_json: r##"{"DataSource":"noCloud","UserData":"#cloud-config\n"}"##.into(),
    };
    chain
        .pre_cloud_init_iso(&invocation(), &vmi(), documents)
        .await
        .unwrap();
    let record = record(&pod.root().join("records"));
    let (code, _, err) = replay(&record, &["--module", path(&module)]);
    assert!(
        code == 2 && err.contains("withheld") && err.contains("user-data"),
        "{err}"
    );
}

#[tokio::test]
async fn records_of_serve_are_replayed() {
    let pod = Pod::new();
    let module = example("smbios-hook");
    let records = pod.root().join("served");
    let mut served = pod.serve(&[&module], &["--hook-record", path(&records)]);
    served.wait_until_ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let params = OnDefineDomainParams {
        domain_xml: XML.into(),
        vmi: vmi().into_bytes(),
    };
    let mut client = CallbacksClient::new(channel);
    client.on_define_domain(params).await.unwrap();
    let record = record(&records);
    let value: Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert_eq!(value["hook"]["name"], "smbios-hook");
    let (code, out, err) = replay(&record, &["--module", path(&module)]);
    assert_eq!(code, 0, "{out}{err}");
}
