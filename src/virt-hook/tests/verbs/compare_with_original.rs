//! `compare --original`: a port against a script, a sidecar and a module, and failures that are ignored.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::example_modules::example;
use super::served_sidecar::Pod;
use super::{smbios, text, virt_hook, vmi, write};

/// Writes an executable shell script.
pub(super) fn script(temp_dir: &Path, name: &str, body: &str) -> PathBuf {
    let path = write(temp_dir, name, &format!("#!/bin/sh\n{body}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A script with the effect of the smbios example. As with sidecar-shim, `$2` is the VMI and `$4` the domain.
const SMBIOS_SCRIPT: &str = "entry='<baseBoard><entry name=\"manufacturer\">Radical Edward</entry></baseBoard>'\n\
    printf '%s' \"$4\" | sed -e \"s#<baseBoard></baseBoard>#$entry#\" -e \"s#<baseBoard/>#$entry#\"";

#[test]
fn a_port_is_compared_with_a_script() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    let compare = |original: &Path| {
        virt_hook(&[
            "compare",
            "--hook",
            text(&port),
            "--original",
            text(original),
            "--vmi",
            text(&vmi),
        ])
    };
    let same_output = compare(&script(temp_dir.path(), "same", SMBIOS_SCRIPT)).success_stdout();
    assert!(
        same_output.contains("same  ns/vm") && same_output.contains("1 VMIs: 1 same, 0 different"),
        "{same_output}"
    );
    let idle = compare(&script(temp_dir.path(), "idle", "printf '%s' \"$4\""));
    assert_eq!(idle.code, 1, "{}{}", idle.out, idle.err);
    assert!(
        idle.out.contains("DIFFERENT  ns/vm") && idle.out.contains("+ <entry name='manufacturer'>"),
        "{}",
        idle.out
    );
    let failing = compare(&script(
        temp_dir.path(),
        "failing",
        "echo 'no board' >&2; exit 3",
    ));
    assert_eq!(failing.code, 1, "{}{}", failing.out, failing.err);
    assert!(
        failing
            .out
            .contains("only the original refuses it: exit status: 3: no board"),
        "{}",
        failing.out
    );
    let plain = write(temp_dir.path(), "plain", "no script");
    let unusable = compare(&plain);
    assert_eq!(unusable.code, 2);
    assert!(unusable.err.contains("not executable"), "{}", unusable.err);
    let usage = compare(&script(temp_dir.path(), "usage", "echo usage >&2; exit 2"));
    assert_eq!(usage.code, 1, "{}{}", usage.out, usage.err);
    let reason = "the original did not run: exit status: 2: usage";
    assert!(usage.out.contains(reason), "{}", usage.out);
}

/// A script refuses by its exit code, a module at PreStart.
#[test]
fn a_port_that_refuses_a_vm_is_not_the_same_as_a_script_that_does_not() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let compare = |port: &str, body: &str| {
        let (port, original) = (example(port), script(temp_dir.path(), "original", body));
        let (port, original) = (text(&port), text(&original));
        let sides = ["--hook", port, "--original", original];
        virt_hook(&[&["compare", "--vmi", text(&vmi)], &sides[..]].concat())
    };
    let identity = "printf '%s' \"$4\"";
    let refused = compare("required-label-hook", identity);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    for part in ["REFUSED  ns/vm\n", "the hook refuses it: "] {
        assert!(refused.out.contains(part), "{}", refused.out);
    }
    let both_refuse = compare("required-label-hook", "exit 1").success_stdout();
    assert!(both_refuse.contains("1 VMIs: 1 same"), "{both_refuse}");
    // A port that is called only where a script is not.
    let uncalled = compare("cloud-init-hook", identity);
    assert_eq!(uncalled.code, 4, "{}{}", uncalled.out, uncalled.err);
    for part in [
        "NOT RUN  ns/vm\n",
        "that are compared: PreStart, OnDefineDomain",
    ] {
        assert!(uncalled.out.contains(part), "{}", uncalled.out);
    }
}

#[tokio::test]
async fn a_port_is_compared_with_a_running_sidecar_and_with_a_module() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    let pod = Pod::new();
    let mut served = pod.serve(&[&port], &[]);
    served.wait_until_ready().await;
    for original in [pod.socket(), port.clone()] {
        let output = virt_hook(&[
            "compare",
            "--hook",
            text(&port),
            "--original",
            text(&original),
            "--vmi",
            text(&vmi),
        ]);
        assert!(
            output.success_stdout().contains("1 VMIs: 1 same"),
            "{}",
            original.display()
        );
    }
    assert_eq!(pod.files().len(), 1, "nothing is left beside the socket");
}

/// A hook that fails with `failurePolicy: Ignore` is not a hook that changes nothing.
#[test]
fn an_ignored_failure_is_neither_the_same_nor_unchanged() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let label = |directory: &str| {
        let directory = temp_dir.path().join(directory);
        write(&directory, "hook.yaml", "failurePolicy: Ignore\n");
        let module = directory.join("label.wasm");
        fs::copy(example("required-label-hook"), &module).unwrap();
        module
    };
    let (hook, other) = (label("hook"), label("original"));
    let compare = ["compare", "--hook", text(&hook), "--vmi", text(&vmi)];
    let preview = virt_hook(&compare);
    let message = "the hook failed there (Ignore): ";
    assert_eq!(preview.code, 1, "{}{}", preview.out, preview.err);
    assert!(
        preview.out.contains(message) && preview.out.contains("has no label"),
        "{}",
        preview.out
    );
    assert!(
        preview.out.contains("1 with a failure that is ignored"),
        "{}",
        preview.out
    );
    let ported = virt_hook(&[&compare[..], &["--original", text(&other)]].concat());
    assert_eq!(ported.code, 1, "{}{}", ported.out, ported.err);
    assert!(
        ported.out.contains("DIFFERENT") && ported.out.contains("0 same"),
        "{}",
        ported.out
    );
    let rendered = virt_hook(&["render", "--vmi", text(&vmi), "--hook", text(&hook)]);
    assert_eq!(rendered.code, 0, "{}", rendered.err);
    assert!(
        rendered.err.contains("warning: ") && rendered.err.contains("has no label"),
        "{}",
        rendered.err
    );
}
