//! The examples in C and Python, built by their Makefiles and run by the real host.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use hook_host::MigrationParameters;
use hooks_sdk_testing::{Hook, readme};
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;

/// The size limit of a module in C, in bytes.
const LARGEST_C: u64 = 300 << 10;

fn example(directory: &str) -> PathBuf {
    workspace().join("examples-hooks").join(directory)
}

fn c() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built(&BUILT, "examples-hooks/c-genid", "genid")
}

fn interfaces() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    built(
        &BUILT,
        "examples-hooks/python-interface-tuning",
        "interfaces",
    )
}

/// Once per process.
fn built(once: &OnceLock<PathBuf>, directory: &str, name: &str) -> PathBuf {
    let make = || {
        hooks::build_with_make(directory, "Makefile", name)
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    once.get_or_init(make).clone()
}

/// Every VMI of the corpus with its domain.
fn corpus() -> Vec<(PathBuf, String, String)> {
    let entries = fs::read_dir(workspace().join("tests/corpus/vmi-to-domain-xml")).unwrap();
    let mut all: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let case = path.to_str()?.strip_suffix(".vmi.json")?.to_owned();
            let xml = fs::read_to_string(format!("{case}.xml")).ok()?;
            Some((path.clone(), fs::read_to_string(path).unwrap(), xml))
        })
        .collect();
    all.sort();
    assert!(all.len() > 100, "the corpus has moved");
    all
}

fn loaded(module: &Path) -> Hook {
    Hook::load(module).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that a hook changes no byte of a VM without its annotation.
fn assert_changes_nothing(hook: &Hook, step: usize) {
    for (path, vmi, xml) in corpus().iter().step_by(step) {
        hook.pre_start(vmi).ok();
        let defined = hook.on_define_domain(vmi, xml).ok();
        assert!(defined.changes.is_empty(), "{}", path.display());
    }
}

#[test]
fn the_cases_in_the_c_hooks_readme_hold() {
    let cases = readme(example("c-genid").join("README.md"), c());
    assert_eq!(cases.unwrap_or_else(|error| panic!("{error}")), 2);
}

#[test]
fn the_c_hook_is_small_and_needs_no_wasi() {
    let module = fs::read(c()).unwrap();
    assert!((module.len() as u64) < LARGEST_C, "{} bytes", module.len());
    let text = String::from_utf8_lossy(&module);
    assert!(text.contains("virt-hook:hooks/handler@0.1.0"));
    assert!(!text.contains("wasi"), "it imports WASI");
}

#[test]
fn the_c_hook_does_not_change_other_vms() {
    assert_changes_nothing(&loaded(&c()), 1);
}

/// JSON and XML syntax that no VMI has, and that a parser in C could get wrong.
#[test]
fn the_c_hook_parses_any_json_and_xml_syntax() {
    let hook = loaded(&c());
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

fn attach() -> Hook {
    let built = hooks::build_with_make("tests/hooks/c-attach-device", "sdk/hook.mk", "attach");
    loaded(&built.unwrap_or_else(|error| panic!("{error:#}")))
}

/// The hook in Python that uses every hook point.
fn board() -> Hook {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let directory = "tests/hooks/python-every-hook-point";
        hooks::build_with_make(directory, "sdk/hook.mk", "board")
            .unwrap_or_else(|error| panic!("{error:#}"))
    };
    loaded(BUILT.get_or_init(make))
}

/// A VMI with a value of the annotation that [`board`] reads.
fn board_vmi(value: &str) -> String {
    let name = "board.example.com/manufacturer";
    serde_json::json!({"metadata": {"annotations": {name: value}}}).to_string()
}

#[test]
fn a_veto_that_a_python_hook_returns_is_a_failure() {
    let hook = board();
    let failure = hook.pre_start(&board_vmi("a returned veto")).failure();
    let expected = "pre_start returned a Veto: raise it (hook.py:";
    assert!(failure.contains(expected), "{failure}");
    hook.pre_start(&board_vmi("ACME")).ok();
}

#[test]
fn hooks_in_c_and_python_read_facts_about_the_pod() {
    let vmi = board_vmi("the pod");
    for hook in [attach(), board()] {
        let hook = hook
            .with_pod_annotation("a.example/b", "one")
            .with_network_status(hooks::NETWORK_STATUS);
        assert_eq!(hook.pre_start(&vmi).veto(), hooks::POD_FACTS);
    }
}

/// A hook in C below `tests/hooks`, built.
fn built_c(directory: &str, name: &str) -> PathBuf {
    hooks::build_with_make(&format!("tests/hooks/{directory}"), "sdk/hook.mk", name)
        .unwrap_or_else(|error| panic!("{error:#}"))
}

#[test]
fn a_c_hook_replaces_documents_and_sees_the_end() {
    let hook = loaded(&built_c("c-every-hook-point", "points"));
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
    let farewell = hook.shutdown();
    assert!(farewell.logged("farewell from C"));
    farewell.ok();
}

/// It was a veto without words.
#[test]
fn a_c_hook_that_returns_false_without_a_reason_fails() {
    let hook = loaded(&built_c("c-every-hook-point", "points"));
    let failure = hook.pre_start("{}").failure();
    assert!(
        failure.contains("returned false without hook_veto() or hook_fail()"),
        "{failure}"
    );
}

#[test]
fn a_c_hook_that_defines_an_unlisted_hook_point_is_refused() {
    let module = built_c("c-unlisted-hook-point", "unlisted");
    let refused = Hook::load(module).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("OnAttachDevice has a function, and hook_describe() does not list it"),
        "{refused}"
    );
}

#[test]
fn a_c_hook_that_lists_a_hook_point_without_a_function_is_refused() {
    let module = built_c("c-missing-function", "missing");
    let refused = Hook::load(module).map(drop).unwrap_err().to_string();
    let expected = "lists OnDefineDomain, and there is no function hook_on_define_domain";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_c_hook_sees_attached_devices() {
    let hook = attach();
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

/// The SDK in C, natively.
#[test]
fn the_c_sdks_own_tests_pass() {
    let mut make = Command::new("make");
    let make = make.args(["-f", "sdk/hook.mk", "native"]);
    let output = make
        .current_dir(workspace().join("tests/hooks/c-sdk"))
        .output();
    let output = output.unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
}

/// The SDK in Python, and the tests of the hook, natively.
#[test]
fn python_tests_run_natively() {
    for directory in [
        "tests/hooks/python-sdk",
        "examples-hooks/python-interface-tuning",
    ] {
        let mut make = Command::new("make");
        let make = make.args(["-f", "sdk/hook.mk", "native"]);
        let make = make.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = make.current_dir(workspace().join(directory)).output();
        let output = output.unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{directory}: {printed}");
        assert!(printed.contains("OK"), "{directory}: {printed}");
    }
}

#[test]
fn the_cases_in_the_python_hooks_readme_hold() {
    let cases = readme(
        example("python-interface-tuning").join("README.md"),
        interfaces(),
    );
    assert_eq!(cases.unwrap_or_else(|error| panic!("{error}")), 2);
}

/// One test, since loading the module takes some seconds to compile.
#[test]
fn the_python_hook_does_not_change_other_vms_and_reports_where_it_failed() {
    let hook = loaded(&interfaces());
    assert_changes_nothing(&hook, 10);
    let vmi = |spec: &str, tuning: &str| {
        let spec: serde_json::Value = serde_json::from_str(spec).unwrap();
        let annotations = serde_json::json!({"interfaces.vm.example.com/tuning": tuning});
        serde_json::json!({"metadata": {"annotations": annotations}, "spec": spec}).to_string()
    };
    let no_domain = vmi("{}", r#"{"a": {"queues": 2}}"#);
    let failed = hook.pre_start(&no_domain).failure();
    assert!(failed.contains("KeyError: 'domain' (hook.py:"), "{failed}");
    let no_json = vmi(r#"{"domain": {"devices": {}}}"#, "queues=4");
    let refused = hook.pre_start(&no_json).veto();
    assert!(refused.contains("is not JSON"), "{refused}");
    let given = MigrationParameters::default();
    let tuned = vmi(r#"{"domain": {"devices": {}}}"#, r#"{"a": {"queues": 4}}"#);
    let tuned = hook.pre_migration_source(&tuned, &given).ok();
    assert_eq!(tuned.parallel_connections, 4);
    assert_eq!(given.differences(&tuned).len(), 1);
    let refused = hook.pre_migration_source(&no_json, &given).veto();
    assert!(refused.contains("is not JSON"), "{refused}");
}

/// The SDK files in the templates equal those of the examples, and fit the WIT.
#[test]
fn templates_and_examples_have_the_same_sdk() {
    let templates = workspace().join("src/virt-hook/templates");
    for (language, directory, name) in [
        ("c", "c-genid", "genid"),
        ("python", "python-interface-tuning", "interfaces"),
        ("go", "go-smbios", "smbios"),
    ] {
        let read = |path: PathBuf| {
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let template = read(templates.join(language).join("Makefile"));
        let own = read(example(directory).join("Makefile"));
        assert_eq!(
            template.replace("{{name}}", name),
            own,
            "{directory}/Makefile"
        );
        let sdk = fs::canonicalize(example(directory).join("sdk")).unwrap();
        assert_eq!(
            sdk,
            fs::canonicalize(templates.join(language).join("sdk")).unwrap()
        );
    }
    for (copy, original) in [
        ("wit/hooks.wit", "v0.1/hooks.wit"),
        ("wit-0.1.1/optional.wit", "v0.1.1/optional.wit"),
    ] {
        let wit = fs::read_to_string(templates.join("python/sdk").join(copy)).unwrap();
        let truth = workspace().join("hooks-sdk/wit").join(original);
        assert!(
            wit == fs::read_to_string(truth).unwrap(),
            "copy hooks-sdk/wit/{original} to templates/python/sdk/{copy}"
        );
    }
}
