//! OnAttachDevice: an optional interface that is called for modules that subscribe to it. The rules of OnDefineDomain
//! apply to the one device.
mod deadlines;

use std::time::{Duration, Instant};

use crate::fixture::handwritten_guest::HandwrittenGuest;
use crate::fixture::{HookDirs, invocation};
use hook_host::record::{Record, RecordConfig};
use hook_host::replay::replay;
use hook_host::wasm::{LoadOptions, Module};
use hook_host::{
    AttachTime, Chain, CollectConfig, HookError, HookPoint, PolicySource, Run, collect,
};

/// A disk. The guests below replace the letters in `cache`, `dev` and `file`.
const DISK: &str =
    "<disk type='file'><driver cache='a'/><target dev='b'/><source file='c'/></disk>";
const CACHE: &str = "cache='";
const TARGET: &str = "dev='";
const SOURCE: &str = "file='c";

const DESCRIPTION: &str = r#"{"name": "by-hand", "hookPoints": [{"name": "OnDefineDomain"},
    {"name": "OnAttachDevice"}], "wishes": {"paths": ["/domain/devices/disk/driver/@cache"]}}"#;
const WITHOUT_WISHES: &str =
    r#"{"name": "by-hand", "hookPoints": [{"name": "OnAttachDevice"}], "wishes": {"paths": []}}"#;
const NOT_SUBSCRIBED: &str = r#"{"name": "by-hand", "hookPoints": [{"name": "OnDefineDomain"}]}"#;

/// A guest that runs this code at OnAttachDevice and then returns its input.
fn guest(description: &'static str, code: &str) -> Vec<u8> {
    let function = format!(
        r#"(data (i32.const 512) "no more disks")
        (func (export "virt-hook:hooks/attach-device@0.1.1#on-attach-device")
            (param i32 i32) (param $xml i32) (param $length i32) (result i32)
            {code}
            (call $done (local.get $xml) (local.get $length)))"#
    );
    let guest = HandwrittenGuest {
        fields: function.leak(),
        description,
        ..HandwrittenGuest::default()
    };
    guest.module()
}

/// Code that replaces the letter at the first occurrence of `text` in [`DISK`].
fn write_letter(text: &str, letter: char) -> String {
    let at = DISK.find(text).unwrap() + text.len() - usize::from(text == SOURCE);
    let letter = u32::from(letter);
    format!("(i32.store8 (i32.add (local.get $xml) (i32.const {at})) (i32.const {letter}))")
}

/// Code that returns a veto.
const VETO: &str =
    "(i32.store (i32.const 32) (i32.const 1)) (i32.store (i32.const 36) (i32.const 0))
    (i32.store (i32.const 40) (i32.const 512)) (i32.store (i32.const 44) (i32.const 13))
    (return (i32.const 32))";

async fn chain(module: &[u8], hook_yaml: &str) -> (HookDirs, Chain) {
    let dirs = HookDirs::new();
    dirs.put("h", "hook.yaml", hook_yaml.as_bytes());
    dirs.put("h", "m.wasm", module);
    let dir = dirs.hooks().join("../records");
    let record = RecordConfig {
        dir,
        secrets: false,
    };
    let config = CollectConfig {
        record: Some(record),
        policy: PolicySource::None,
        ..dirs.config(1)
    };
    let chain = collect(config).await.unwrap();
    (dirs, chain)
}

async fn attach(chain: &Chain, xml: &str) -> Result<(String, Vec<Run>), HookError> {
    let time = AttachTime::default();
    let xml = xml.to_owned();
    chain
        .on_attach_device(&invocation(), "{}", xml, &time)
        .await
}

/// Attaches [`DISK`] with a guest of this description and code.
async fn attach_with_guest(
    description: &'static str,
    code: &str,
) -> Result<(String, Vec<Run>), HookError> {
    let (_dirs, chain) = chain(&guest(description, code), "{}").await;
    attach(&chain, DISK).await
}

#[tokio::test]
async fn a_granted_change_of_the_device_is_kept_with_its_path_in_the_domain() {
    let (xml, runs) = attach_with_guest(DESCRIPTION, &write_letter(CACHE, 'z'))
        .await
        .unwrap();
    assert_eq!(xml, DISK.replace("cache='a'", "cache='z'"));
    let change = &runs[0].changes[0];
    assert_eq!(
        change.path,
        "/domain/devices/disk[target/@dev='b']/driver/@cache"
    );
    assert_eq!(runs[0].hook_point, HookPoint::OnAttachDevice);
}

#[tokio::test]
async fn a_change_that_is_not_granted_is_denied() {
    let error = attach_with_guest(WITHOUT_WISHES, &write_letter(CACHE, 'z'))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, HookError::Denied { path, .. } if path.ends_with("/driver/@cache")),
        "{error}"
    );
    assert_eq!(error.event_reason(), "HookDenied");
}

#[tokio::test]
async fn the_identity_of_the_device_may_not_be_changed() {
    for (text, path) in [(TARGET, "disk/target was"), (SOURCE, "disk/source was")] {
        let error = attach_with_guest(DESCRIPTION, &write_letter(text, 'z'))
            .await
            .unwrap_err();
        assert!(
            matches!(&error, HookError::BadOutput { message, .. } if message.contains(path)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn veto_is_reported_and_ignored_veto_keeps_the_device_unchanged() {
    let module = guest(DESCRIPTION, VETO);
    let (_dirs, strict) = chain(&module, "{}").await;
    let error = attach(&strict, DISK).await.unwrap_err().to_string();
    assert_eq!(error, "hook h refuses at OnAttachDevice: no more disks");
    let (_dirs, lenient) = chain(&module, "failurePolicy: Ignore\n").await;
    let (xml, runs) = attach(&lenient, DISK).await.unwrap();
    assert_eq!((xml.as_str(), runs.len()), (DISK, 1));
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let module = guest(DESCRIPTION, &write_letter(CACHE, 'z'));
    let (_dirs, chain) = chain(&module, "failurePolicy: DryRun\n").await;
    let (xml, runs) = attach(&chain, DISK).await.unwrap();
    assert_eq!((xml.as_str(), runs[0].changes.len()), (DISK, 1));
}

#[tokio::test]
async fn an_export_without_a_subscription_is_not_called() {
    let (_dirs, chain) = chain(&guest(NOT_SUBSCRIBED, VETO), "{}").await;
    assert!(chain.order(HookPoint::OnAttachDevice).is_empty());
    let (xml, runs) = attach(&chain, DISK).await.unwrap();
    assert_eq!((xml.as_str(), runs.len()), (DISK, 0));
}

#[tokio::test]
async fn a_module_built_for_wit_0_1_0_is_not_called() {
    let (_dirs, chain) = chain(&HandwrittenGuest::default().module(), "{}").await;
    let (xml, runs) = attach(&chain, DISK).await.unwrap();
    assert_eq!((xml.as_str(), runs.len()), (DISK, 0));
}

#[tokio::test]
async fn a_subscription_without_the_interface_is_refused_by_its_name() {
    let guest = HandwrittenGuest {
        description: DESCRIPTION,
        ..HandwrittenGuest::default()
    };
    let loaded = Module::from_bytes(&guest.module(), "by-hand", LoadOptions::default()).await;
    let error = loaded.err().unwrap().to_string();
    assert!(
        error.contains("it wants to be called at OnAttachDevice")
            && error.contains("does not export virt-hook:hooks/attach-device@0.1.1"),
        "{error}"
    );
}

#[tokio::test]
async fn elements_that_are_no_device_are_refused() {
    let (_dirs, chain) = chain(&guest(DESCRIPTION, ""), "{}").await;
    let error = attach(&chain, "<memory/>").await.unwrap_err();
    assert!(
        matches!(&error, HookError::BadInput { message, .. } if message.contains("<memory>")),
        "{error}"
    );
}

#[tokio::test]
async fn a_recorded_attach_is_replayed() {
    let module = guest(DESCRIPTION, &write_letter(CACHE, 'z'));
    let (dirs, chain) = chain(&module, "{}").await;
    let (xml, _) = attach(&chain, DISK).await.unwrap();
    let records = std::fs::read_dir(dirs.hooks().join("../records")).unwrap();
    let path = records.map(|entry| entry.unwrap().path()).next().unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!(record.hook_point, "OnAttachDevice");
    // The reason is the one of the hook point, whatever the caller passes.
    assert_eq!(record.invocation.reason, "hotplug");
    assert_eq!(record.input.device_xml.as_deref(), Some(DISK));
    let module = dirs.at("h", "m.wasm");
    let replayed = replay(&record, &module, false, LoadOptions::default());
    let replayed = replayed.await.unwrap();
    assert!(replayed.difference.is_none(), "{:?}", replayed.difference);
    assert_eq!(replayed.output.unwrap().device_xml, Some(xml));
}
