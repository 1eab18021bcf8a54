//! Hooks in Go: the example, the tests of the SDK, and the WASI imports of Go's runtime.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use hooks_sdk::Domain;
use hooks_sdk_testing::{Hook, readme};
use serde_json::json;
use tests::binaries::workspace;
use tests::build_and_install_hooks as hooks;
use tests::sample_pod_facts::{NETWORK_STATUS, POD_FACTS};

const SMBIOS: &str = "examples-hooks/go-smbios";
const RECIPES: &str = "tests/hooks/go-recipes";
const SDK: &str = "src/virt-hook/templates/go/sdk";

fn build_module(directory: &str, name: &str) -> PathBuf {
    hooks::build_with_make(directory, "Makefile", name).unwrap_or_else(|error| panic!("{error:#}"))
}

fn smbios_module_and_hook() -> &'static (PathBuf, Hook) {
    static BUILT: OnceLock<(PathBuf, Hook)> = OnceLock::new();
    BUILT.get_or_init(|| {
        let module = build_module(SMBIOS, "smbios");
        let hook = Hook::load(&module).unwrap_or_else(|error| panic!("{error}"));
        (module, hook)
    })
}

/// Runs the `go` command in a directory of the workspace and returns its output.
fn run_go(directory: &str, arguments: &[&str]) -> String {
    let [(_, program), ..] = hooks::go_environment().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(workspace().join(directory))
        .envs(hooks::go_environment().unwrap())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(
        output.status.success(),
        "{directory}: go {arguments:?}: {text}"
    );
    text
}

#[test]
fn go_sdk_tests_pass() {
    let printed = run_go(SDK, &["test", "-count=1", "."]);
    assert!(printed.starts_with("ok"), "{printed}");
}

/// `go vet` checks the rules of unsafe pointers.
#[test]
fn go_vet_has_no_findings() {
    assert_eq!(run_go(SDK, &["vet", "."]), "");
    assert_eq!(run_go(SMBIOS, &["vet", "."]), "");
}

#[test]
fn test_cases_in_the_readme_pass() {
    let page = workspace().join(SMBIOS).join("README.md");
    let cases = readme(page, &smbios_module_and_hook().0);
    assert_eq!(cases.unwrap_or_else(|error| panic!("{error}")), 1);
}

/// Every VMI of the corpus with its domain.
fn corpus_cases() -> Vec<(serde_json::Value, String)> {
    let entries = fs::read_dir(workspace().join("tests/corpus/vmi-to-domain-xml")).unwrap();
    let all: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let case = path.to_str()?.strip_suffix(".vmi.json")?.to_owned();
            let xml = fs::read_to_string(format!("{case}.xml")).ok()?;
            let vmi = fs::read_to_string(path).unwrap();
            Some((serde_json::from_str(&vmi).unwrap(), xml))
        })
        .collect();
    assert!(all.len() > 100, "the corpus has moved");
    all
}

/// Uses the same list of paths as the tests of the SDKs in Go and Python.
#[test]
fn vmi_paths_give_the_same_values_in_all_sdks() {
    let list = workspace().join(SDK).join("testdata/vmi_paths.json");
    let list: serde_json::Value = serde_json::from_str(&fs::read_to_string(list).unwrap()).unwrap();
    let vmi = hooks_sdk::Vmi::new(list["vmi"].to_string());
    let values = list["values"].as_array().unwrap();
    assert!(!values.is_empty());
    for entry in values {
        let path = entry[0].as_str().unwrap();
        let value = vmi.get(path).map(|json| json.read().unwrap());
        assert_eq!(value.unwrap_or(json!(null)), entry[1], "{path}");
    }
    // Rust returns no value where Go and Python return an error.
    for path in list["invalid"].as_array().unwrap() {
        assert!(vmi.get(path.as_str().unwrap()).is_none(), "{path}");
    }
}

#[test]
fn go_and_rust_sdks_write_the_same_domain_xml() {
    for (mut vmi, xml) in corpus_cases().into_iter().step_by(10) {
        vmi["metadata"]["annotations"]["smbios.vm.kubevirt.io/baseBoardManufacturer"] =
            json!("A <b> & \"c\"");
        let edited = smbios_module_and_hook()
            .1
            .on_define_domain(&vmi.to_string(), &xml)
            .ok()
            .xml;
        let mut domain = Domain::parse(xml).unwrap();
        domain.set("os/smbios/@mode", "sysinfo").unwrap();
        let entry = "sysinfo[@type='smbios']/baseBoard/entry[@name='manufacturer']";
        domain.set(entry, "A <b> & \"c\"").unwrap();
        assert_eq!(edited, domain.render());
    }
}

#[test]
fn unchanged_domain_keeps_its_bytes() {
    for (mut vmi, xml) in corpus_cases().into_iter().step_by(20) {
        vmi["metadata"]["annotations"] = json!(null);
        let edited = smbios_module_and_hook()
            .1
            .on_define_domain(&vmi.to_string(), &xml)
            .ok();
        assert_eq!(edited.xml, xml);
    }
}

/// The hook is compiled once, since that takes some seconds.
fn recipes_hook() -> &'static Hook {
    static BUILT: OnceLock<Hook> = OnceLock::new();
    BUILT.get_or_init(|| {
        let hook =
            Hook::load(build_module(RECIPES, "recipes")).unwrap_or_else(|error| panic!("{error}"));
        hook.with_config("key", "value")
    })
}

#[test]
fn wasi_imports_of_the_go_runtime_reach_nothing_of_the_host() {
    let hook = recipes_hook();
    let run = |what: &str| {
        let vmi = json!({"metadata": {"annotations": {"do": what}}});
        hook.pre_start(&vmi.to_string())
    };
    for (what, result) in [
        ("random", "16<nil>true"),
        ("clock", "true true"),
        ("goroutines", "4950"),
        ("environment", "0 0"),
        ("garbage", "50010"),
        ("config", "valuetruePreStart"),
    ] {
        assert_eq!(
            run(what).veto().replace(' ', ""),
            result.replace(' ', ""),
            "{what}"
        );
    }
    let files = run("files").veto();
    assert!(files.contains("/etc/passwd"), "{files}");
    let printed = run("stdio");
    for stream in ["on standard output", "on standard error"] {
        assert!(printed.logged(stream), "{stream}");
    }
    printed.ok();
    assert_eq!(run("error").failure(), "it failed: while error: reason");
    let panic = run("panic").failure();
    assert!(
        panic.contains("index out of range [5] with length 0 (go_runtime.go:"),
        "{panic}"
    );
    for (exit_kind, trace) in [
        ("exit", "Exited with i32 exit status"),
        ("fatal", "runtime.abort"),
    ] {
        let failure = run(exit_kind).failure();
        assert!(failure.contains(trace), "{exit_kind}: {failure}");
    }
    let documents = [("user-data", "#cloud-config\n"), ("meta-data", "")];
    let changed = hook.pre_cloud_init_iso("{}", "noCloud", &documents).ok();
    let expected = [
        ("user-data", "#cloud-config\n# noCloud\n"),
        ("meta-data", ""),
        ("network-data", ""),
    ];
    assert_eq!(
        changed,
        expected
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into()
    );
    let edited = hook.on_define_domain(r#"{"a": 1, "b": 2}"#, "<domain><title/></domain>");
    assert_eq!(edited.ok().xml, "<domain><title>2</title></domain>");
    let shutdown = hook.shutdown();
    assert!(shutdown.logged("farewell"));
    shutdown.ok();
}

/// Runs gofmt from its source: Go's distribution on PyPI has no gofmt program.
#[test]
fn go_sources_are_formatted() {
    let template = "src/virt-hook/templates/go";
    let directories = [template, SMBIOS, RECIPES].map(|path| workspace().join(path));
    let mut arguments = vec!["run", "cmd/gofmt", "-l"];
    arguments.extend(directories.iter().map(|path| path.to_str().unwrap()));
    assert_eq!(run_go(SDK, &arguments), "");
}

#[test]
fn a_go_hook_reads_facts_about_the_pod() {
    let hook =
        Hook::load(build_module(RECIPES, "recipes")).unwrap_or_else(|error| panic!("{error}"));
    let hook = hook
        .with_pod_annotation("a.example/b", "one")
        .with_network_status(NETWORK_STATUS);
    let vmi = json!({"metadata": {"annotations": {"do": "pod"}}}).to_string();
    assert_eq!(hook.pre_start(&vmi).veto(), POD_FACTS);
}
