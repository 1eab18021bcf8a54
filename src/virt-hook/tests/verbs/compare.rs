//! `compare`: a port against a script, a sidecar and a module; and the preview of a cluster's VMs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::pod::Pod;
use super::{VMI, smbios, text, virt_hook, vmi, write};

fn script(temp_dir: &Path, name: &str, body: &str) -> PathBuf {
    let path = write(temp_dir, name, &format!("#!/bin/sh\n{body}\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// `$2` is the VMI, `$4` the domain, as sidecar-shim gives them.
const SAME: &str = "entry='<baseBoard><entry name=\"manufacturer\">Radical Edward</entry></baseBoard>'\n\
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
    let same = compare(&script(temp_dir.path(), "same", SAME)).ok();
    assert!(
        same.contains("same  ns/vm") && same.contains("1 VMIs: 1 same, 0 different"),
        "{same}"
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

#[test]
fn a_script_that_does_not_start_cannot_be_compared() {
    let place = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(place.path()));
    for (first_line, reason) in [
        (
            "#!/nonexistent/interpreter",
            "first line names is not there",
        ),
        ("no first line", "no first line such as #!/bin/sh"),
    ] {
        let path = script(place.path(), "original", "");
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
        let said = unusable.err;
        assert!(
            said.contains("does not start") && said.contains(reason),
            "{said}"
        );
    }
}

/// A policy does not let the port run, and the original ends as for a wrong use.
#[test]
fn two_sides_that_do_not_run_are_not_the_same() {
    let place = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(place.path()));
    let policy =
        "allow: {paths: []}\nrules:\n- namespaces: [other]\n  allow: {paths: ['/domain/**']}\n";
    let policy = write(place.path(), "policy.yaml", policy);
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
        let original = script(place.path(), "original", body);
        let shown = compare(&original, &[]);
        assert_eq!(shown.code, 4, "{body}: {}{}", shown.out, shown.err);
        for part in [
            "NOT RUN  ns/vm\n",
            "0 same, 0 different, 0 refused, 1 not run",
        ] {
            assert!(shown.out.contains(part), "{body}: {}", shown.out);
        }
        let complaint = "neither the original nor the hook ran on 1 of 1 VMIs";
        assert!(shown.err.contains(complaint), "{body}: {}", shown.err);
    }
    // The same module under the same policy.
    let same_module = compare(&port, &["--json"]);
    assert_eq!(same_module.code, 4, "{}", same_module.out);
    let report: Value = serde_json::from_str(&same_module.out).unwrap();
    assert_eq!(report["result"]["notRun"], 1);
    assert_eq!(report["result"]["groups"][0]["verdict"], "notRun");
    // One that refuses has looked at the domain.
    let refusing = compare(&script(place.path(), "original", "exit 1"), &[]);
    assert_eq!(refusing.code, 1, "{}{}", refusing.out, refusing.err);
    let printing = compare(&script(place.path(), "original", "echo x; exit 2"), &[]);
    assert_eq!(printing.code, 1, "{}{}", printing.out, printing.err);
}

#[tokio::test]
async fn a_port_is_compared_with_a_running_sidecar_and_with_a_module() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(temp_dir.path()));
    let pod = Pod::new();
    let mut served = pod.serve(&[&port], &[]);
    served.ready().await;
    for original in [pod.socket(), port.clone()] {
        let same = virt_hook(&[
            "compare",
            "--hook",
            text(&port),
            "--original",
            text(&original),
            "--vmi",
            text(&vmi),
        ]);
        assert!(
            same.ok().contains("1 VMIs: 1 same"),
            "{}",
            original.display()
        );
    }
    assert_eq!(pod.files().len(), 1, "nothing is left beside the socket");
}

#[test]
fn the_rules_of_a_policy_hold_in_each_vmis_namespace() {
    let temp_dir = tempfile::tempdir().unwrap();
    let item = |namespace: &str| {
        let text = VMI.replace("namespace: ns\n", &format!("namespace: {namespace}\n"));
        assert_ne!(text, VMI);
        format!("- {}", text.trim_end().replace('\n', "\n  "))
    };
    let list = format!("kind: List\nitems:\n{}\n{}\n", item("a"), item("b"));
    let vmis = write(temp_dir.path(), "all.yaml", &list);
    let policy = write(
        temp_dir.path(),
        "policy.yaml",
        "allow: {paths: []}\nrules:\n- namespaces: [a]\n  allow: {paths: ['/domain/**']}\n",
    );
    let module = smbios();
    let shown = virt_hook(&[
        "compare",
        "--hook",
        text(&module),
        "--vmi",
        text(&vmis),
        "--policy",
        text(&policy),
    ]);
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    for part in [
        "changed  a/vm\n",
        "REFUSED  b/vm\n",
        "it wants the path",
        "2 VMIs: 0 unchanged, 1 changed, 1 refused",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
}

#[test]
fn without_an_original_a_fleet_is_previewed() {
    let temp_dir = tempfile::tempdir().unwrap();
    let item = |name: &str| {
        let text = VMI.replace("name: vm\n", &format!("name: {name}\n"));
        format!("- {}", text.trim_end().replace('\n', "\n  "))
    };
    let idle = item("idle").replace("baseBoard", "base");
    let list = format!("kind: List\nitems:\n{}\n{}\n{idle}\n", item("a"), item("b"));
    write(temp_dir.path(), "dump/all.yaml", &list);
    write(temp_dir.path(), "dump/notes.txt", "no VMI");
    let dump = temp_dir.path().join("dump");
    let module = smbios();
    let shown = virt_hook(&["compare", "--hook", text(&module), "--vmi-dir", text(&dump)]).ok();
    assert!(
        shown.contains("changed  ns/a, ns/b\n") && shown.contains("unchanged  ns/idle"),
        "{shown}"
    );
    assert!(
        shown.contains("3 VMIs: 1 unchanged, 2 changed, 0 refused"),
        "{shown}"
    );
    let json = virt_hook(&[
        "compare",
        "--hook",
        text(&module),
        "--vmi-dir",
        text(&dump),
        "--json",
    ])
    .json();
    assert_eq!(
        json["result"]["groups"][0]["vmis"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    write(
        temp_dir.path(),
        "dump/wrong.yaml",
        "metadata: {name: wrong}\nspec: {volumes: 7}\n",
    );
    let refused = virt_hook(&["compare", "--hook", text(&module), "--vmi-dir", text(&dump)]);
    assert_ne!(refused.code, 0, "{}{}", refused.out, refused.err);
}
