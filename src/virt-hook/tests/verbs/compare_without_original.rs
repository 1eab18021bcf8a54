//! `compare` without an original: the changes of hooks on all VMIs of a cluster.

use std::path::Path;

use super::example_modules::example;
use super::{VMI, smbios, text, virt_hook, write};

#[test]
fn cloud_init_data_in_secrets_is_counted_as_not_compared() {
    let temp_dir = tempfile::tempdir().unwrap();
    let with_volume = |source: &str| {
        let disks = "devices: {disks: [{name: seed, disk: {bus: virtio}}]}";
        let vmi = VMI.replace("devices: {}", disks);
        let vmi = format!("{vmi}  volumes:\n  - name: seed\n    cloudInitNoCloud: {source}\n");
        write(temp_dir.path(), "vmi.yaml", &vmi)
    };
    let compare = |hook: &str, vmi: &Path, more: &[&str]| {
        let hook = example(hook);
        let arguments = ["compare", "--hook", text(&hook), "--vmi", text(vmi)];
        virt_hook(&[&arguments[..], more].concat())
    };
    let secret = with_volume("{secretRef: {name: web-data}}");
    let shown = compare("cloud-init-hook", &secret, &[]).success_stdout();
    let line = "cloud-init not compared on 1 VMIs (their data is in Secrets)";
    assert!(shown.contains(line), "{shown}");
    let json = compare("cloud-init-hook", &secret, &["--json"]).result();
    assert_eq!(json["cloudInitNotCompared"], 1, "{json}");
    // A hook that is not called at PreCloudInitIso.
    let shown = compare("smbios-hook", &secret, &[]).success_stdout();
    assert!(!shown.contains("cloud-init not compared"), "{shown}");
    // A volume that is invalid in itself.
    let wrong_volume = compare("cloud-init-hook", &with_volume("{}"), &[]);
    assert_eq!(
        wrong_volume.code, 1,
        "{}{}",
        wrong_volume.out, wrong_volume.err
    );
    assert!(
        wrong_volume.out.contains("REFUSED  ns/vm\n") && wrong_volume.out.contains("volume seed"),
        "{}",
        wrong_volume.out
    );
}

#[test]
fn rules_of_a_policy_apply_in_the_namespace_of_each_vmi() {
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
    // A policy without rules refuses the module in every namespace.
    let no_rules = write(temp_dir.path(), "nowhere.yaml", "allow: {paths: []}\n");
    let policy = ["--policy", text(&no_rules)];
    let arguments = ["compare", "--hook", text(&module), "--vmi", text(&vmis)];
    let shown = virt_hook(&[&arguments[..], &policy].concat());
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("REFUSED  a/vm, b/vm\n"), "{}", shown.out);
}

/// A dump as `kubectl get vm,vmi,secret -A -o yaml` prints it, and a truncated file.
#[test]
fn a_dump_may_have_other_objects_and_virtual_machines_with_their_vmis() {
    let temp_dir = tempfile::tempdir().unwrap();
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
    write(temp_dir.path(), "dump/all.yaml", &all);
    write(temp_dir.path(), "dump/secret.yaml", secret);
    let dump = temp_dir.path().join("dump");
    let module = smbios();
    let arguments = ["compare", "--hook", text(&module), "--vmi-dir", text(&dump)];
    let shown = virt_hook(&arguments).success_stdout();
    for part in [
        "changed  ns/vm\n",
        "unchanged  ns/stopped\n",
        "NO VM  ",
        "  it is a Secret\n",
        "2 VMIs: 1 unchanged, 1 changed, 0 refused\n2 objects are not VMs\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    write(
        temp_dir.path(),
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
    write(temp_dir.path(), "dump/more.yaml", &list(&[refused]));
    let shown = virt_hook(&arguments);
    assert_eq!(shown.code, 1, "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("REFUSED  ns/wrong\n"), "{}", shown.out);

    let secrets = write(temp_dir.path(), "secrets.yaml", &list(&[secret, secret]));
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
fn without_an_original_the_changes_of_all_vmis_are_shown() {
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
    let shown =
        virt_hook(&["compare", "--hook", text(&module), "--vmi-dir", text(&dump)]).success_stdout();
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
    // A note that all VMIs have is one warning.
    let machine = VMI
        .replace("metadata:", "kind: VirtualMachine\nmetadata:")
        .replace(
            "spec:\n  domain:\n    devices: {}\n    memory: {guest: 64Mi}\n",
            "spec: {template: {spec: {domain: {devices: {}, memory: {guest: 64Mi}}}}}\n",
        );
    let named_vm = |name: &str| machine.replace("name: vm\n", &format!("name: {name}\n"));
    let several = [named_vm("a"), named_vm("b"), named_vm("c")].join("---\n");
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

/// Also as the shell expands a pattern, and as `virt-hook` does.
#[test]
fn vmis_are_taken_from_directories_and_patterns() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let named = |name: &str| VMI.replace("name: vm\n", &format!("name: {name}\n"));
    let a = write(temp_dir.path(), "vms/a.yaml", &named("a"));
    let b = write(temp_dir.path(), "vms/b.yaml", &named("b"));
    write(
        temp_dir.path(),
        "vms/service.yaml",
        "kind: Service\nmetadata: {name: s}\n",
    );
    let directory = temp_dir.path().join("vms");
    let pattern = directory.join("?.yaml");
    for vmis in [
        &[text(&directory)][..],
        &[text(&pattern)],
        &[text(&a), text(&b)],
    ] {
        let arguments = [&["compare", "--hook", text(&module), "--vmi"], vmis].concat();
        let shown = virt_hook(&arguments).success_stdout();
        assert!(shown.contains("changed  ns/a, ns/b\n"), "{vmis:?}: {shown}");
        // The module before and behind them.
        let (before, behind) = (
            [text(&module), "--vmi"],
            [text(&module), "--without-libvirt"],
        );
        for arguments in [
            [&["check", "--without-libvirt"], &before[..], vmis].concat(),
            [&["check", "--vmi"], vmis, &behind[..]].concat(),
        ] {
            let checked = virt_hook(&arguments);
            let runs = "ok           runs: 8 VMIs, 0 vetoes, no crash\n";
            assert!(
                checked.out.contains(runs),
                "{vmis:?}: {}{}",
                checked.out,
                checked.err
            );
        }
    }
    let missing = directory.join("*.yml");
    let nothing = virt_hook(&["compare", "--hook", text(&module), "--vmi", text(&missing)]);
    assert_eq!(nothing.code, 2);
    assert!(
        nothing.err.contains("*.yml: no file matches it"),
        "{}",
        nothing.err
    );
}
