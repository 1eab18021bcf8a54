//! The example and the test hooks in C.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use hooks_sdk_testing::{Hook, readme};
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;

use crate::{assert_changes_nothing, attach_hook, build_once, example, load};

/// The maximum size of a module in C, in bytes.
const MAXIMUM_C_MODULE_SIZE: u64 = 300 << 10;

fn genid_module() -> PathBuf {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    build_once(&MODULE, "examples-hooks/c-genid", "genid")
}

#[test]
fn test_cases_in_the_c_hooks_readme_pass() {
    let cases = readme(example("c-genid").join("README.md"), genid_module());
    assert_eq!(cases.unwrap_or_else(|error| panic!("{error}")), 2);
}

#[test]
fn the_c_hook_is_small_and_needs_no_wasi() {
    let module = fs::read(genid_module()).unwrap();
    assert!(
        (module.len() as u64) < MAXIMUM_C_MODULE_SIZE,
        "{} bytes",
        module.len()
    );
    let text = String::from_utf8_lossy(&module);
    assert!(text.contains("virt-hook:hooks/handler@0.1.0"));
    assert!(!text.contains("wasi"), "it imports WASI");
}

#[test]
fn the_c_hook_does_not_change_other_vms() {
    assert_changes_nothing(&load(&genid_module()), 1);
}

/// JSON and XML syntax that does not occur in VMIs, and that a parser in C could misread.
#[test]
fn the_c_hook_parses_any_json_and_xml_syntax() {
    let hook = load(&genid_module());
    let id = "6a1b5fd0-2a2e-4f21-9c3e-0f0d5a5c6d01";
    let name = "genid.vm.example.com/generation-id";
    let escaped = name.replace('g', "\\u0067").replace('/', "\\/");
    for vmi in [
        format!(r#"{{"metadata":{{"annotations":{{"{name}":"{id}"}}}}}}"#),
        format!(
            r#" {{ "a" : [1, {{"b":"]"}}, "\"}}"], "metadata" : {{ "x": null, "annotations" : {{ "{escaped}" : "{id}" }} }} }} "#
        ),
        format!(
            r#"{{"metadata":{{"labels":{{"annotations":"{{"}},"annotations":{{"é😀":"\u00e9\ud83d\ude00","{name}":"\u0036{}"}}}}}}"#,
            &id[1..]
        ),
    ] {
        for (before, after) in [
            (
                "<domain><name>a</name></domain>",
                format!("<domain><name>a</name><genid>{id}</genid></domain>"),
            ),
            (
                "<domain><genid/><name>a</name></domain>",
                format!("<domain><genid>{id}</genid><name>a</name></domain>"),
            ),
            (
                "<?xml version='1.0'?><!-- <name>b</name> --><domain a='/>' b=\">\"><names/><title><![CDATA[<name>]]></title><name >a</name ></domain>",
                format!(
                    "<?xml version='1.0'?><!-- <name>b</name> --><domain a='/>' b=\">\"><names/><title><![CDATA[<name>]]></title><name >a</name ><genid>{id}</genid></domain>"
                ),
            ),
        ] {
            assert_eq!(hook.on_define_domain(&vmi, before).ok().xml, after, "{vmi}");
        }
    }
    for vmi in [
        "{}",
        r#"{"metadata":null}"#,
        r#"{"metadata":{"annotations":{"other":"genid"}}}"#,
        r#"{"metadata":{"annotations":{"genid.vm.example.com/generation-id":null}}}"#,
    ] {
        let before = "<domain><name>a</name></domain>";
        assert_eq!(hook.on_define_domain(vmi, before).ok().xml, before, "{vmi}");
    }
}

/// Builds a hook in C below `tests/hooks`.
fn build_c_hook(directory: &str, name: &str) -> PathBuf {
    hooks::build_with_make(&format!("tests/hooks/{directory}"), "sdk/hook.mk", name)
        .unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn a_c_hook_replaces_documents_and_sees_the_end() {
    let hook = load(&build_c_hook("c-every-hook-point", "points"));
    let run = |hook: &Hook, documents: &[(&str, &str)]| {
        hook.pre_cloud_init_iso("{}", "noCloud", documents)
    };
    let (user_data, meta_data) = (("user-data", "#cloud-config\n"), ("meta-data", ""));
    let refused = run(&hook, &[user_data, meta_data]);
    assert_eq!(refused.veto(), "hook.yaml configures no network");
    let hook = hook.with_config("network", "version: 2\n");
    let expected = [user_data, meta_data, ("network-data", "version: 2\n")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    for before in ["", "version: 1\n"] {
        let changed = run(&hook, &[user_data, meta_data, ("network-data", before)]);
        assert_eq!(changed.ok(), expected.clone().into(), "{before:?}");
    }
    assert_eq!(run(&hook, &[user_data, meta_data]).ok(), expected.into());
    let shutdown = hook.shutdown();
    assert!(shutdown.logged("farewell from C"));
    shutdown.ok();
}

/// Such a return used to be a veto without a message.
#[test]
fn a_c_hook_that_returns_false_without_a_reason_fails() {
    let hook = load(&build_c_hook("c-every-hook-point", "points"));
    let failure = hook.pre_start("{}").failure();
    assert!(
        failure.contains("returned false without hook_veto() or hook_fail()"),
        "{failure}"
    );
}

#[test]
fn a_c_hook_that_defines_an_unlisted_hook_point_is_refused() {
    let module = build_c_hook("c-unlisted-hook-point", "unlisted");
    let refused = Hook::load(module).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("OnAttachDevice has a function, and hook_describe() does not list it"),
        "{refused}"
    );
}

#[test]
fn a_c_hook_that_lists_a_hook_point_without_a_function_is_refused() {
    let module = build_c_hook("c-missing-function", "missing");
    let refused = Hook::load(module).map(drop).unwrap_err().to_string();
    let expected = "lists OnDefineDomain, and there is no function hook_on_define_domain";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_c_hook_sees_attached_devices() {
    let hook = attach_hook();
    let disk = "<disk type='file'><driver name='qemu'/></disk>";
    let tuned = disk.replace("'qemu'", "'qemu' cache='none'");
    let vmi = |device: &str| {
        serde_json::json!({"metadata": {"annotations": {"device": device}}}).to_string()
    };
    let attached = hook.on_attach_device(&vmi(&tuned), disk).ok();
    assert_eq!(attached.xml, tuned);
    assert_eq!(
        attached.changes[0].path,
        "/domain/devices/disk/driver/@cache"
    );
    assert_eq!(hook.on_attach_device("{}", disk).veto(), "no device in C");
    let failure = hook.on_attach_device(&vmi("fail"), disk).failure();
    assert!(failure.contains("no luck in C"), "{failure}");
}

/// Runs the tests of the SDK in C natively.
#[test]
fn c_sdk_tests_pass() {
    let mut make = Command::new("make");
    let make = make.args(["-f", "sdk/hook.mk", "native"]);
    let output = make
        .current_dir(workspace().join("tests/hooks/c-sdk"))
        .output();
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}
