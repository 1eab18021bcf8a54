//! `compare`: VMIs on which a side does not run, is not called or lacks inputs.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::compare_with_original::script;
use super::example_modules::example;
use super::{smbios, text, virt_hook, vmi, write};

#[test]
fn a_script_that_does_not_start_cannot_be_compared() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    for (first_line, reason) in [
        (
            "#!/nonexistent/interpreter",
            "first line names is not there",
        ),
        ("no first line", "no first line such as #!/bin/sh"),
    ] {
        let path = script(temp_dir.path(), "original", "");
        fs::write(&path, first_line).unwrap();
        let (port, original, vmi) = (text(&port), text(&path), text(&vmi));
        let arguments = [
            "compare",
            "--hook",
            port,
            "--original",
            original,
            "--vmi",
            vmi,
        ];
        let unusable = virt_hook(&arguments);
        assert_eq!(unusable.code, 2, "{}{}", unusable.out, unusable.err);
        let stderr = unusable.err;
        assert!(
            stderr.contains("does not start") && stderr.contains(reason),
            "{stderr}"
        );
    }
}

#[test]
fn hooks_that_are_not_called_are_not_compared() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (example("migration-tuning-hook"), vmi(temp_dir.path()));
    let smbios = smbios();
    let compare = ["compare", "--vmi", text(&vmi), "--hook"];
    for (hook, more) in [
        (&module, vec![]),
        (&module, vec!["--original", text(&module)]),
        (&smbios, vec!["--original", text(&module)]),
    ] {
        let shown = virt_hook(&[&compare[..], &[text(hook)], &more].concat());
        assert_eq!(shown.code, 4, "{more:?}: {}{}", shown.out, shown.err);
        for part in [
            "NOT RUN  ns/vm\n",
            "PreStart, PreCloudInitIso, OnDefineDomain",
            "1 not run",
        ] {
            assert!(shown.out.contains(part), "{more:?}: {}", shown.out);
        }
    }
}

#[test]
fn a_hook_that_reads_facts_about_the_pod_is_compared_only_with_some() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = write(temp_dir.path(), "vmi.yaml", super::pod_facts::VMI);
    let pod = write(temp_dir.path(), "pod.yaml", super::pod_facts::POD);
    let module = example("static-addresses-hook");
    let compare = |more: &[&str]| {
        let arguments = ["compare", "--hook", text(&module), "--vmi", text(&vmi)];
        virt_hook(&[&arguments[..], more].concat())
    };
    let without = compare(&[]);
    assert_eq!(without.code, 4, "{}{}", without.out, without.err);
    for part in [
        "NOT RUN  infra/vm\n",
        "no facts about the pod here",
        "--pod",
    ] {
        assert!(without.out.contains(part), "{}", without.out);
    }
    let with_pod = compare(&["--pod", text(&pod)]).success_stdout();
    assert!(
        with_pod.contains("changed  infra/vm\n") && with_pod.contains("192.0.2.10"),
        "{with_pod}"
    );
}

/// The policy refuses the port, and the original ends with an exit code of wrong usage.
#[test]
fn two_sides_that_did_not_run_are_not_the_same() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    let policy =
        "allow: {paths: []}\nrules:\n- namespaces: [other]\n  allow: {paths: ['/domain/**']}\n";
    let policy = write(temp_dir.path(), "policy.yaml", policy);
    let compare = |original: &Path, more: &[&str]| {
        let arguments = [
            "compare",
            "--hook",
            text(&port),
            "--original",
            text(original),
            "--vmi",
            text(&vmi),
            "--policy",
            text(&policy),
        ];
        virt_hook(&[&arguments[..], more].concat())
    };
    for body in ["exit 2", "exit 126", "no-such-program-at-all"] {
        let original = script(temp_dir.path(), "original", body);
        let shown = compare(&original, &[]);
        assert_eq!(shown.code, 4, "{body}: {}{}", shown.out, shown.err);
        for part in [
            "NOT RUN  ns/vm\n",
            "0 same, 0 different, 0 refused, 1 not run",
        ] {
            assert!(shown.out.contains(part), "{body}: {}", shown.out);
        }
        let complaint = "nothing was compared on 1 of 1 VMIs";
        assert!(shown.err.contains(complaint), "{body}: {}", shown.err);
    }
    // The original is the same module, under the same policy.
    let same_module = compare(&port, &["--json"]);
    assert_eq!(same_module.code, 4, "{}", same_module.out);
    let report: Value = serde_json::from_str(&same_module.out).unwrap();
    assert_eq!(report["result"]["notRun"], 1);
    assert_eq!(report["result"]["groups"][0]["verdict"], "notRun");
    // An original that refuses has read the domain.
    let refusing = compare(&script(temp_dir.path(), "original", "exit 1"), &[]);
    assert_eq!(refusing.code, 1, "{}{}", refusing.out, refusing.err);
    let printing = compare(&script(temp_dir.path(), "original", "echo x; exit 2"), &[]);
    assert_eq!(printing.code, 1, "{}{}", printing.out, printing.err);
}

/// The sidecar of the socket has ended.
#[test]
fn error_names_a_socket_without_sidecar() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    let socket = temp_dir.path().join("old.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let sides = ["--hook", text(&port), "--original", text(&socket)];
    let shown = virt_hook(&[&["compare", "--vmi", text(&vmi)], &sides[..]].concat());
    assert_eq!(shown.code, 3, "{}{}", shown.out, shown.err);
    let message = format!("{}: no hook sidecar answered there", text(&socket));
    assert!(shown.err.contains(&message), "{}", shown.err);
    assert!(!shown.err.contains("--hook-sidecars"), "{}", shown.err);
}
