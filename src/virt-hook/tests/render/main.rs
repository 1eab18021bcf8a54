//! `virt-hook render` as its users run it.
#![allow(clippy::unwrap_used)]

mod cluster_domains;
mod manifests;
mod several_vms;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use domain_xml::Document;
use domain_xml::host::{ChangeKind, diff};
use serde_json::{Value, json};

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/corpus/vmi-to-domain-xml")
        .join(name)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs with arguments and standard input.
fn virt_hook(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_virt-hook"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Fails if the program ends without having read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn render(more: &[&str], vmi: &[u8]) -> Output {
    let host = corpus("host.json");
    virt_hook(
        &[&["render", "--vmi", "-", "--host", text(&host)], more].concat(),
        vmi,
    )
}

fn xml(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The exit code, and the only line of standard error.
fn failure(output: &Output) -> (i32, String) {
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("virt-hook: "), "{stderr}");
    (output.status.code().unwrap(), stderr)
}

/// The differences, except in the order of elements with different names.
fn differences(actual: &str, expected: &str) -> Vec<String> {
    let (actual, expected) = (
        Document::parse(actual).unwrap(),
        Document::parse(expected).unwrap(),
    );
    let changes = diff(&expected, &actual).into_iter();
    let changes = changes.filter(|change| !matches!(change.kind, ChangeKind::Moved));
    changes.map(|change| format!("{change:?}")).collect()
}

fn minimal() -> Value {
    serde_json::from_slice(&fs::read(corpus("minimal.vmi.json")).unwrap()).unwrap()
}

#[test]
fn domains_of_the_corpus_equal_kubevirts() {
    let host = corpus("host.json");
    for name in [
        "minimal",
        "typical-fedora",
        "cloudinit-configdrive",
        "kernel-boot",
    ] {
        let [vmi, options] = ["vmi", "options"].map(|kind| corpus(&format!("{name}.{kind}.json")));
        let arguments = [
            "render",
            "--vmi",
            text(&vmi),
            "--options",
            text(&options),
            "--host",
            text(&host),
        ];
        let expected = fs::read_to_string(corpus(&format!("{name}.xml"))).unwrap();
        let actual = xml(&virt_hook(&arguments, b""));
        assert_eq!(differences(&actual, &expected), [] as [String; 0], "{name}");
        let prepared = fs::read_to_string(corpus(&format!("{name}.driver-modes.xml"))).unwrap();
        let actual = xml(&virt_hook(&[&arguments[..], &["--prepared"]].concat(), b""));
        assert_eq!(
            differences(&actual, &prepared),
            [] as [String; 0],
            "{name}, prepared"
        );
    }
}

#[test]
fn refusal_of_a_vmi_has_kubevirts_text() {
    let vmi = corpus("input-keyboard.vmi.json");
    let message = fs::read_to_string(corpus("input-keyboard.error")).unwrap();
    let (code, stderr) = failure(&virt_hook(&["render", "--vmi", text(&vmi)], b""));
    assert_eq!(code, 1);
    assert!(stderr.trim_end().ends_with(message.trim()), "{stderr}");
}

fn warnings(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn error_contains_the_path_of_an_unusable_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        text(&path).to_owned()
    };
    let (bad_json, no_module) = (path("bad.json", "{"), path("no.wasm", "garbage"));
    let empty = text(directory.path()).to_owned() + "/empty";
    fs::create_dir(&empty).unwrap();
    let vmi = minimal().to_string();
    for arguments in [
        ["--options", &bad_json],
        ["--hook", &no_module],
        ["--hook", &empty],
        ["--hook", "/nonexistent/hook.wasm"],
        ["--options", "/nonexistent/options.json"],
    ] {
        let (code, stderr) = failure(&render(&arguments, vmi.as_bytes()));
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(arguments[1]), "{stderr}");
    }
    assert_eq!(virt_hook(&["render"], b"").status.code(), Some(2));
}

#[test]
fn a_hook_that_render_does_not_call_is_warned_about() {
    let module = tests::build_and_install_hooks::example("cloud-init-hook").unwrap();
    let arguments = ["--hook", text(&module), "--diff"];
    let output = render(&arguments, minimal().to_string().as_bytes());
    assert_eq!(xml(&output), "");
    let warning_lines = warnings(&output);
    let expected =
        "was not called: render calls PreStart and OnDefineDomain, and it has PreCloudInitIso";
    assert!(
        warning_lines.contains("virt-hook: warning: the hook cloud")
            && warning_lines.contains(expected),
        "{warning_lines}"
    );
}

#[test]
fn hooks_change_the_domain() {
    let module = tests::build_and_install_hooks::example("smbios-hook").unwrap();
    let mut vmi = minimal();
    let plain = xml(&render(&[], vmi.to_string().as_bytes()));
    let unasked = xml(&render(
        &["--hook", text(&module)],
        vmi.to_string().as_bytes(),
    ));
    assert_eq!(
        unasked, plain,
        "a hook that is not asked for anything leaves every byte alone"
    );

    vmi["metadata"]["annotations"]["smbios.vm.kubevirt.io/baseBoardManufacturer"] =
        "Sirius & Sons".into();
    let pod = tempfile::tempdir().unwrap();
    fs::create_dir_all(pod.path().join("hooks/hook-sidecar-0")).unwrap();
    fs::copy(&module, pod.path().join("hooks/hook-sidecar-0/smbios.wasm")).unwrap();
    for path in [
        module,
        pod.path().join("hooks"),
        pod.path().join("hooks/hook-sidecar-0"),
    ] {
        let output = render(
            &["--hook", text(&path), "--verbose"],
            vmi.to_string().as_bytes(),
        );
        let actual = xml(&output);
        assert!(actual.contains(">Sirius &amp; Sons</entry>"), "{actual}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(
            log.contains("OnDefineDomain") && log.contains("baseBoard"),
            "{log}"
        );
    }
}

#[test]
fn help_explains_itself() {
    let help = String::from_utf8(virt_hook(&["render", "--help"], b"").stdout).unwrap();
    for part in [
        "--vmi",
        "--options",
        "--host",
        "--hook",
        "--prepared",
        "Examples:",
        "Exit codes:",
    ] {
        assert!(help.contains(part), "{help}");
    }
}

#[test]
fn render_needs_no_libvirt() {
    let binary = fs::read(env!("CARGO_BIN_EXE_virt-hook")).unwrap();
    let needle = b"libvirt.so";
    assert!(!binary.windows(needle.len()).any(|window| window == needle));
}

#[test]
fn hotplug_ports_are_rendered_as_far_as_they_are_determined_by_the_vmi() {
    let rendered = |case: &str, more: &[&str]| {
        let vmi = fs::read(corpus(&format!("{case}.vmi.json"))).unwrap();
        let options = corpus(&format!("{case}.options.json"));
        let options = ["--options", text(&options), "--prepared"];
        xml(&render(&[&options, more].concat(), &vmi))
    };
    let ports = |xml: &str| xml.matches("pcie-root-port").count();
    let first = rendered("typical-fedora", &["--hotplug-ports"]);
    assert!(
        first.starts_with("<!-- ") && first.contains("3 placeholder interfaces, with 4 spare"),
        "{first}"
    );
    assert_eq!(first.matches("placeholder-").count(), 3, "{first}");
    let only = rendered("net-none", &["--hotplug-ports"]);
    assert!(!only.contains("placeholder"), "{only}");
    assert!(
        only.starts_with("<!-- the second definition") && only.contains("XML: with 4 spare"),
        "{only}"
    );
    assert_eq!(ports(&only), ports(&rendered("net-none", &[])));
    let report: Value =
        serde_json::from_str(&rendered("net-none", &["--hotplug-ports", "--json"])).unwrap();
    assert_eq!(
        report["result"]["hotplugPorts"],
        json!({"placeholderInterfaces": 0, "spareRootPorts": 4})
    );
}
