//! Modules that are built for other versions of the WIT than the host's.
#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::handwritten_guest::HandwrittenGuest;
use hook_host::wasm::{Call, CallContext, LoadError, LoadOptions, Module};
use hook_host::{HookPoint, collect};

const EXTRA: &str = "interface extra { late: func() -> string; }";
const DOMAIN: &str = "<domain><name>vm</name></domain>";

async fn load(module: &[u8]) -> Result<Module, LoadError> {
    Module::from_bytes(module, "by-hand", LoadOptions::default()).await
}

async fn refusal(module: &[u8]) -> String {
    load(module).await.err().unwrap().to_string()
}

/// A guest that exports an interface which 0.1.0 does not have.
fn exporting() -> HandwrittenGuest {
    HandwrittenGuest {
        fields: r#"(func (export "virt-hook:hooks/extra@0.1.0#late") (result i32) (i32.const 16))"#,
        ..HandwrittenGuest::default()
    }
}

async fn runs(module: &[u8]) {
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
    runs(&HandwrittenGuest::default().module()).await;
}

#[tokio::test]
async fn a_module_for_0_1_1_runs() {
    runs(&HandwrittenGuest::default().module_for("0.1.1", "", "")).await;
}

#[tokio::test]
async fn an_interface_that_only_0_1_1_calls_does_no_harm() {
    runs(&exporting().module_for("0.1.1", EXTRA, "export extra;")).await;
}

#[tokio::test]
async fn a_module_for_0_2_0_is_refused_with_both_versions() {
    let error = refusal(&HandwrittenGuest::default().module_for("0.2.0", "", "")).await;
    assert!(
        error.contains("built for virt-hook:hooks@0.2.0")
            && error.contains("this host runs virt-hook:hooks@0.1.1"),
        "{error}"
    );
}

#[tokio::test]
async fn a_module_for_the_packages_former_name_is_told_the_new_one() {
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
    let asking = HandwrittenGuest {
        imports: r#"(import "virt-hook:hooks/extra@0.1.0" "late" (func $late (param i32)))"#,
        ..HandwrittenGuest::default()
    };
    let error = refusal(&asking.module_for("0.1.1", EXTRA, "import extra;")).await;
    assert!(
        error.contains("it needs the interface virt-hook:hooks/extra@0.1.1")
            && error.contains("this host of virt-hook:hooks@0.1.1"),
        "{error}"
    );
}

/// Generated bindings export all hook points of a world.
#[tokio::test]
async fn a_hook_point_is_called_only_if_the_description_subscribes_to_it() {
    let dirs = fixture::HookDirs::new();
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
