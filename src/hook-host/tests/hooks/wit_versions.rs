//! Modules that were built for another version of the WIT than the host's.

use crate::fixture::handwritten_guest::HandwrittenGuest;
use hook_host::wasm::{Answer, Call, CallContext, LoadError, LoadOptions, Module, package_version};
use hook_host::{HookPoint, collect};

/// An interface that the host does not have.
const EXTRA_INTERFACE: &str = "interface extra { late: func() -> string; }";
/// A version 0.1.x that is newer than the host's.
const NEWER_VERSION: &str = "0.1.2";
const DOMAIN: &str = "<domain><name>vm</name></domain>";

async fn load(module: &[u8]) -> Result<Module, LoadError> {
    Module::from_bytes(module, "by-hand", LoadOptions::default()).await
}

async fn refusal(module: &[u8]) -> String {
    load(module).await.err().unwrap().to_string()
}

/// How errors name this host.
fn this_host() -> String {
    format!("this host of virt-hook:hooks@{}", package_version())
}

/// A guest that exports an interface which the host does not have.
fn guest_with_extra_export() -> HandwrittenGuest {
    HandwrittenGuest {
        fields: r#"(func (export "virt-hook:hooks/extra@0.1.0#late") (result i32) (i32.const 16))"#,
        ..HandwrittenGuest::default()
    }
}

/// Checks that a module is loaded and runs.
async fn assert_runs(module: &[u8]) {
    let module = load(module).await.unwrap();
    let call = Call::OnDefineDomain {
        vmi: "{}",
        domain_xml: DOMAIN,
    };
    let report = module.call(&CallContext::default(), &call).await;
    report.result.unwrap();
}

#[tokio::test]
async fn a_module_for_0_1_0_runs() {
    assert_runs(&HandwrittenGuest::default().module()).await;
}

#[tokio::test]
async fn a_module_for_the_hosts_own_version_runs() {
    let version = package_version().to_string();
    assert_runs(&HandwrittenGuest::default().module_for(&version, "", "")).await;
}

/// If this test fails, the host has this version now: increase [`NEWER_VERSION`].
#[test]
fn newer_version_is_newer_than_the_hosts() {
    let newer_version = semver::Version::parse(NEWER_VERSION).unwrap();
    let version = package_version();
    assert!(
        newer_version > version && newer_version.minor == version.minor,
        "{newer_version} {version}"
    );
}

#[tokio::test]
async fn a_module_for_a_newer_0_1_than_the_hosts_runs() {
    assert_runs(&HandwrittenGuest::default().module_for(NEWER_VERSION, "", "")).await;
}

#[tokio::test]
async fn an_export_that_the_host_does_not_know_is_ignored() {
    assert_runs(&guest_with_extra_export().module_for(
        NEWER_VERSION,
        EXTRA_INTERFACE,
        "export extra;",
    ))
    .await;
}

/// The guest exports the interface of its own version, as the bindings of a newer SDK do.
#[tokio::test]
async fn a_hook_point_of_a_newer_0_1_is_called() {
    const ATTACH_INTERFACE: &str = "interface attach-device { use types.{error};
        on-attach-device: func(vmi: string, device-xml: string) -> result<string, error>; }";
    let guest = HandwrittenGuest {
        fields: r#"(func (export "virt-hook:hooks/attach-device@0.1.0#on-attach-device")
                (param i32 i32 i32 i32) (result i32)
                (i32.store8 (i32.const 48) (i32.const 0))
                (i32.store (i32.const 52) (local.get 2))
                (i32.store (i32.const 56) (local.get 3))
                (i32.const 48))"#,
        description: r#"{"name": "by-hand", "hookPoints": [{"name": "OnAttachDevice"}]}"#,
        ..HandwrittenGuest::default()
    };
    let module = guest.module_for(NEWER_VERSION, ATTACH_INTERFACE, "export attach-device;");
    let module = load(&module).await.unwrap();
    let device_xml = "<disk type='file' device='disk'><target dev='sda'/></disk>";
    let call = Call::OnAttachDevice {
        vmi: "{}",
        device_xml,
    };
    let report = module.call(&CallContext::default(), &call).await;
    assert_eq!(report.result.unwrap(), Answer::DeviceXml(device_xml.into()));
}

#[tokio::test]
async fn a_module_for_0_2_0_is_refused_with_both_versions() {
    let error = refusal(&HandwrittenGuest::default().module_for("0.2.0", "", "")).await;
    assert!(
        error.contains("built for virt-hook:hooks@0.2.0")
            && error.contains(&format!(
                "this host runs virt-hook:hooks@{}",
                package_version()
            )),
        "{error}"
    );
}

#[tokio::test]
async fn error_for_the_former_package_name_contains_the_new_one() {
    let error = refusal(&HandwrittenGuest::default().module_for_package("kubevirt:hooks")).await;
    assert!(
        error.contains("built for kubevirt:hooks@0.1.0")
            && error.contains("called virt-hook:hooks@0.1.0 now")
            && error.contains("build it again with the SDK"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[tokio::test]
async fn a_module_that_needs_a_missing_interface_is_refused_by_its_name() {
    let importing = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/extra@0.1.0" "late" (func $late (param i32)))"#,
        ..HandwrittenGuest::default()
    };
    let error =
        refusal(&importing.module_for(NEWER_VERSION, EXTRA_INTERFACE, "import extra;")).await;
    assert!(
        error.contains("it needs the interface virt-hook:hooks/extra@0.1.2")
            && error.contains(&this_host()),
        "{error}"
    );
}

/// A hook would silently lack what an unknown name stands for, while unknown members of a description are ignored.
#[tokio::test]
async fn a_description_with_a_name_that_the_host_does_not_know_is_refused_by_that_name() {
    for (description, member_and_name) in [
        (
            r#"{"name": "by-hand", "hookPoints": [{"name": "PostStop"}]}"#,
            r#"hookPoints[].name has "PostStop""#,
        ),
        (
            r#"{"name": "by-hand", "wishes": {"migration": ["zero-copy"]}}"#,
            r#"wishes.migration has "zero-copy""#,
        ),
        (
            r#"{"name": "by-hand", "wishes": {"pod": ["node-name"]}}"#,
            r#"wishes.pod has "node-name""#,
        ),
    ] {
        let guest = HandwrittenGuest {
            description,
            ..HandwrittenGuest::default()
        };
        let error = refusal(&guest.module_for(NEWER_VERSION, "", "")).await;
        assert!(
            error.contains(member_and_name)
                && error.contains(&format!("{} does not have (it has ", this_host()))
                && error.ends_with("use a version of virt-launcher or virt-hook that has it"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_description_with_members_that_the_host_does_not_know_runs() {
    let guest = HandwrittenGuest {
        description: r#"{"name": "by-hand", "hookPoints": [{"name": "OnDefineDomain", "timeout": "1s"}],
            "wishes": {"devices": ["/dev/kvm"]}, "licence": "MIT"}"#,
        ..HandwrittenGuest::default()
    };
    assert_runs(&guest.module_for(NEWER_VERSION, "", "")).await;
}

/// Generated bindings export all hook points of a world, so an export does not mean that the hook point is used.
#[tokio::test]
async fn a_hook_point_is_called_only_if_the_description_subscribes_to_it() {
    let dirs = crate::fixture::HookDirs::new();
    dirs.put("h", "m.wasm", &HandwrittenGuest::default().module());
    let chain = collect(dirs.config(1)).await.unwrap();
    assert_eq!(chain.order(HookPoint::OnDefineDomain), ["h"]);
    assert!(chain.order(HookPoint::PreStart).is_empty());
    assert!(chain.order(HookPoint::Shutdown).is_empty());
    let invocation = hook_host::Invocation::default();
    assert!(chain.pre_start(&invocation, "{}").await.unwrap().is_empty());
    assert!(chain.shutdown(&invocation).await.is_empty());
    let vmi = r#"{"metadata":{"name":"vm"}}"#;
    let defined = chain.on_define_domain(&invocation, vmi, DOMAIN.to_owned());
    assert_eq!(defined.await.unwrap().1.len(), 1);
}
