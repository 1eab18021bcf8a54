//! `compare`: a port against a script, a sidecar and a module; and the preview of a cluster's VMs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::served_sidecar::{Pod, example};
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
        let stderr = unusable.err;
        assert!(
            stderr.contains("does not start") && stderr.contains(reason),
            "{stderr}"
        );
    }
}

/// A script refuses with its exit code, a module at PreStart.
#[test]
fn a_port_that_refuses_a_vm_is_not_the_same_as_a_script_that_does_not() {
    let place = tempfile::tempdir().unwrap();
    let vmi = vmi(place.path());
    let compare = |port: &str, body: &str| {
        let (port, original) = (example(port), script(place.path(), "original", body));
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
    let both = compare("required-label-hook", "exit 1").ok();
    assert!(both.contains("1 VMIs: 1 same"), "{both}");
    // A port that acts where no script does.
    let elsewhere = compare("cloud-init-hook", identity);
    assert_eq!(elsewhere.code, 4, "{}{}", elsewhere.out, elsewhere.err);
    for part in [
        "NOT RUN  ns/vm\n",
        "that are compared: PreStart, OnDefineDomain",
    ] {
        assert!(elsewhere.out.contains(part), "{}", elsewhere.out);
    }
}

#[test]
fn hooks_that_are_not_called_are_not_compared() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (example("migration-tuning-hook"), vmi(place.path()));
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
fn cloud_init_data_in_secrets_is_counted_as_not_compared() {
    let place = tempfile::tempdir().unwrap();
    let with_volume = |source: &str| {
        let disks = "devices: {disks: [{name: seed, disk: {bus: virtio}}]}";
        let vmi = VMI.replace("devices: {}", disks);
        let vmi = format!("{vmi}  volumes:\n  - name: seed\n    cloudInitNoCloud: {source}\n");
        write(place.path(), "vmi.yaml", &vmi)
    };
    let compare = |hook: &str, vmi: &Path, more: &[&str]| {
        let hook = example(hook);
        let arguments = ["compare", "--hook", text(&hook), "--vmi", text(vmi)];
        virt_hook(&[&arguments[..], more].concat())
    };
    let secret = with_volume("{secretRef: {name: web-data}}");
    let shown = compare("cloud-init-hook", &secret, &[]).ok();
    let line = "cloud-init not compared on 1 VMIs (their data is in Secrets)";
    assert!(shown.contains(line), "{shown}");
    let json = compare("cloud-init-hook", &secret, &["--json"]).result();
    assert_eq!(json["cloudInitNotCompared"], 1, "{json}");
    // A hook that is not called with the data.
    let shown = compare("smbios-hook", &secret, &[]).ok();
    assert!(!shown.contains("cloud-init not compared"), "{shown}");
    // A volume that is wrong in itself.
    let wrong = compare("cloud-init-hook", &with_volume("{}"), &[]);
    assert_eq!(wrong.code, 1, "{}{}", wrong.out, wrong.err);
    assert!(
        wrong.out.contains("REFUSED  ns/vm\n") && wrong.out.contains("volume seed"),
        "{}",
        wrong.out
    );
}

#[test]
fn a_hook_that_reads_facts_about_the_pod_is_compared_only_with_some() {
    let place = tempfile::tempdir().unwrap();
    let vmi = write(place.path(), "vmi.yaml", super::pod_facts::VMI);
    let pod = write(place.path(), "pod.yaml", super::pod_facts::POD);
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
    let with = compare(&["--pod", text(&pod)]).ok();
    assert!(
        with.contains("changed  infra/vm\n") && with.contains("192.0.2.10"),
        "{with}"
    );
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
        let complaint = "nothing was compared on 1 of 1 VMIs";
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

/// Its sidecar has ended.
#[test]
fn error_says_that_a_socket_has_no_sidecar() {
    let place = tempfile::tempdir().unwrap();
    let (port, vmi) = (smbios(), vmi(place.path()));
    let socket = place.path().join("old.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let sides = ["--hook", text(&port), "--original", text(&socket)];
    let shown = virt_hook(&[&["compare", "--vmi", text(&vmi)], &sides[..]].concat());
    assert_eq!(shown.code, 3, "{}{}", shown.out, shown.err);
    let named = format!("{}: no hook sidecar answered there", text(&socket));
    assert!(shown.err.contains(&named), "{}", shown.err);
    assert!(!shown.err.contains("--hook-sidecars"), "{}", shown.err);
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
    // One without rules refuses it everywhere.
    let nowhere = write(temp_dir.path(), "nowhere.yaml", "allow: {paths: []}\n");
    let policy = ["--policy", text(&nowhere)];
    let arguments = ["compare", "--hook", text(&module), "--vmi", text(&vmis)];
    let shown = virt_hook(&[&arguments[..], &policy].concat());
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("REFUSED  a/vm, b/vm\n"), "{}", shown.out);
}

/// What `kubectl get vm,vmi,secret -A -o yaml` prints, and a file that is cut off.
#[test]
fn a_dump_may_have_other_objects_and_vms_with_their_vmis() {
    let place = tempfile::tempdir().unwrap();
    let item = |text: &str| format!("- {}\n", text.trim_end().replace('\n', "\n  "));
    let vmi = format!("kind: VirtualMachineInstance\n{VMI}status: {{phase: Running}}\n");
    let template = "spec: {template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}}\n";
    let vm = |name: &str| {
        format!("kind: VirtualMachine\nmetadata: {{name: {name}, namespace: ns}}\n{template}")
    };
    let secret = "kind: Secret\nmetadata: {name: token, namespace: ns}\n";
    let refused = "kind: VirtualMachineInstance\nmetadata: {name: wrong, namespace: ns}\nspec: {volumes: 7}\n";
    let list = |items: &[&str]| {
        let items: String = items.iter().map(|text| item(text)).collect();
        format!("kind: List\nitems:\n{items}")
    };
    let all = list(&[&vm("vm"), &vm("stopped"), secret, &vmi]);
    write(place.path(), "dump/all.yaml", &all);
    write(place.path(), "dump/secret.yaml", secret);
    let dump = place.path().join("dump");
    let module = smbios();
    let arguments = ["compare", "--hook", text(&module), "--vmi-dir", text(&dump)];
    let shown = virt_hook(&arguments).ok();
    for part in [
        "changed  ns/vm\n",
        "unchanged  ns/stopped\n",
        "NO VM  ",
        "  it is a Secret\n",
        "2 VMIs: 1 unchanged, 1 changed, 0 refused\n2 objects are no VMs\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    write(
        place.path(),
        "dump/cut.json",
        "{\"kind\": \"List\", \"items\": [",
    );
    let shown = virt_hook(&arguments);
    assert_eq!(shown.code, 4, "{}{}", shown.out, shown.err);
    for part in [
        "changed  ns/vm\n",
        "cut.json\n  it cannot be read: ",
        "1 not run",
    ] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    write(place.path(), "dump/more.yaml", &list(&[refused]));
    let shown = virt_hook(&arguments);
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("REFUSED  ns/wrong\n"), "{}", shown.out);

    let secrets = write(place.path(), "secrets.yaml", &list(&[secret, secret]));
    let arguments = ["compare", "--hook", text(&module), "--vmi", text(&secrets)];
    let shown = virt_hook(&arguments);
    assert_eq!(shown.code, 2, "{}{}", shown.out, shown.err);
    assert!(
        shown
            .err
            .contains("there is no VMI, and ns/token: it is a Secret"),
        "{}",
        shown.err
    );
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
    // What all VMIs have in common is one warning each.
    let machine = VMI
        .replace("metadata:", "kind: VirtualMachine\nmetadata:")
        .replace(
            "spec:\n  domain:\n    devices: {}\n    memory: {guest: 64Mi}\n",
            "spec: {template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}}\n",
        );
    let named = |name: &str| machine.replace("name: vm\n", &format!("name: {name}\n"));
    let several = [named("a"), named("b"), named("c")].join("---\n");
    let machines = write(temp_dir.path(), "machines.yaml", &several);
    let shown = virt_hook(&["compare", "--hook", text(&module), "--vmi", text(&machines)]);
    assert_eq!(shown.err.lines().count(), 2, "{}", shown.err);
    for warning in [
        "this is a VirtualMachine",
        "metadata.annotations of the VirtualMachine",
    ] {
        let warning = format!("machines.yaml: ns/a and 2 more: {warning}");
        assert!(shown.err.contains(&warning), "{}", shown.err);
    }
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

/// A failing hook that the VM's owner has made unimportant is not a hook that changes nothing.
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
