//! `run`: one hook point on given inputs.

use super::{EVERY_POINT_POLICY, smbios, text, virt_hook, vmi, write};

#[test]
fn run_shows_the_changes_of_a_hook() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let shown = virt_hook(&["run", text(&module), "--vmi", text(&vmi)]).success_stdout();
    assert!(
        shown.starts_with("smbios_hook at OnDefineDomain: ok, 1 change, ")
            && shown.contains("    + <entry name='manufacturer'>Radical Edward</entry>\n"),
        "{shown}"
    );
    let json = virt_hook(&["run", text(&module), "--vmi", text(&vmi), "--json"]).json();
    let run = &json["result"]["runs"][0];
    assert_eq!(
        (run["outcome"].as_str(), run["changes"][0]["kind"].as_str()),
        (Some("ok"), Some("inserted"))
    );
    assert!(
        json["result"]["xml"]
            .as_str()
            .unwrap()
            .contains("Radical Edward")
    );
}

#[test]
fn run_takes_a_domain_and_a_policy() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let domain = "<domain type='kvm'><name>ns_vm</name><os/><sysinfo type='smbios'/></domain>";
    let domain = write(temp_dir.path(), "domain.xml", domain);
    let arguments = [
        "run",
        text(&module),
        "--vmi",
        text(&vmi),
        "--domain",
        text(&domain),
    ];
    let json = virt_hook(&[&arguments[..], &["--json"]].concat()).json();
    let xml = json["result"]["xml"].as_str().unwrap();
    assert!(
        xml.starts_with("<domain type='kvm'>") && xml.contains("smbios mode="),
        "{xml}"
    );

    let arrived = virt_hook(&[&arguments[..], &["--arriving"]].concat());
    assert_eq!(arrived.code, 1, "{}{}", arrived.out, arrived.err);
    assert!(arrived.out.contains("/domain/"), "{}", arrived.out);
    let booted = virt_hook(&["run", text(&module), "--vmi", text(&vmi), "--arriving"]);
    assert_eq!(booted.code, 2, "it needs --domain: {}", booted.out);

    let policy = write(
        temp_dir.path(),
        "policy.yaml",
        "allow:\n  paths: [/domain/title]\n",
    );
    let refused = virt_hook(&[&arguments[..], &["--policy", text(&policy)]].concat());
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("policy.yaml:2:10"), "{}", refused.err);
}

#[test]
fn invalid_xml_is_refused_before_the_hook_is_called() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    for (option, content, reason) in [
        ("--domain", "no XML", "foo.xml: it is not a domain XML: "),
        ("--domain", "", "foo.xml: it is not a domain XML: "),
        ("--domain", "<disk/>", "the root element is <disk>"),
        ("--device", "<disk", "foo.xml: it is not a device: "),
        ("--device", "<domain/>", "foo.xml: it is not a device: "),
    ] {
        let xml = write(temp_dir.path(), "foo.xml", content);
        let run_output = virt_hook(&[
            "run",
            text(&module),
            "--vmi",
            text(&vmi),
            option,
            text(&xml),
        ]);
        assert_eq!(
            run_output.code, 2,
            "{content}: {}{}",
            run_output.out, run_output.err
        );
        assert!(
            run_output.err.contains(reason),
            "{content}: {}",
            run_output.err
        );
        assert!(!run_output.out.contains("cloud-init"), "{}", run_output.out);
    }
}

#[test]
fn error_contains_the_position_of_a_too_low_limit() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let allowed = "allow: {paths: [/domain/os/smbios/**, /domain/sysinfo/baseBoard/**]}\n";
    let policy = format!("{allowed}limits: {{memory: 1Mi}}\n");
    let policy = write(temp_dir.path(), "policy.yaml", &policy);
    let inputs = ["--vmi", text(&vmi), "--policy", text(&policy)];
    let refused = virt_hook(&[&["run", text(&module)], &inputs[..]].concat());
    assert_eq!(refused.code, 2, "{}", refused.err);
    for part in ["may have 1048576", "limits.memory of", "policy.yaml:2:18"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}

#[test]
fn run_and_render_show_that_a_hook_is_final() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let inspected = virt_hook(&["inspect", text(&module), "--json"]).json();
    let sha256 = inspected["result"]["sha256"].as_str().unwrap();
    let policy = format!("rules: [{{digests: [{sha256}], final: true}}]\n");
    let policy = write(temp_dir.path(), "policy.yaml", &policy);
    let rest = ["--vmi", text(&vmi), "--policy", text(&policy)];
    for verb in [
        &["run", text(&module)][..],
        &["render", "--hook", text(&module), "--diff"],
    ] {
        let shown = virt_hook(&[verb, &rest].concat()).success_stdout();
        assert!(shown.contains(" (final) at OnDefineDomain: ok"), "{shown}");
        let json = virt_hook(&[verb, &rest, &["--json"]].concat()).json();
        let rule = json["result"]["runs"][0]["final"].as_str().unwrap();
        assert!(rule.ends_with("policy.yaml:1:94"), "{rule}");
    }
}

/// A file that is not WebAssembly is refused by the policy, too.
#[test]
fn a_module_that_the_policy_refuses_never_reaches_the_compiler() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = write(temp_dir.path(), "garbage.wasm", "no WebAssembly");
    let listed = format!(
        "digests: Listed\nrules: [{{digests: ['{}']}}]\n",
        "0".repeat(64)
    );
    let policy = write(temp_dir.path(), "policy.yaml", &listed);
    let vmi = vmi(temp_dir.path());
    for verb in [
        &["run", text(&module)][..],
        &["render", "--hook", text(&module)],
    ] {
        let rest = ["--vmi", text(&vmi), "--policy", text(&policy)];
        let refused = virt_hook(&[verb, &rest].concat());
        assert_eq!(refused.code, 1, "{}", refused.err);
        let reason = "policy.yaml:1:10: modules run only";
        assert!(refused.err.contains(reason), "{}", refused.err);
    }
}

#[test]
fn run_asks_for_the_hook_point_and_reports_a_veto() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let policy = write(temp_dir.path(), "policy.yaml", EVERY_POINT_POLICY);
    let module = super::example_modules::hook_at_every_point();
    let run = |more: &[&str]| {
        let inputs = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &inputs[..], more].concat())
    };
    let without_point = run(&[]);
    assert_eq!(without_point.code, 2);
    assert!(
        without_point.err.contains("--point") && without_point.err.contains("PreStart"),
        "{}",
        without_point.err
    );
    let started = run(&["--point", "PreStart"]).success_stdout();
    assert!(started.contains("info: vm may start: Boot"), "{started}");

    let text = std::fs::read_to_string(&vmi).unwrap();
    std::fs::write(&vmi, text.replace("do: nothing", "do: veto")).unwrap();
    let veto = run(&["--point", "PreStart", "--json"]);
    assert_eq!(veto.code, 1);
    let run = &veto.json()["result"]["runs"][0];
    assert_eq!(run["outcome"], "veto");
    assert!(veto.err.contains("licence expired"), "{}", veto.err);
}

#[test]
fn run_reports_the_effect_of_the_failure_policy() {
    let temp_dir = tempfile::tempdir().unwrap();
    let unlabelled = vmi(temp_dir.path());
    for (hook, failure_policy, begin) in [
        (
            "smbios-hook",
            "DryRun",
            "hook at OnDefineDomain: ok (DryRun: discarded), 1 change, ",
        ),
        (
            "required-label-hook",
            "Ignore",
            "hook at PreStart: veto (Ignore), ",
        ),
        (
            "required-label-hook",
            "DryRun",
            "hook at PreStart: veto (DryRun: discarded), ",
        ),
    ] {
        let module = temp_dir.path().join("hook/hook.wasm");
        write(
            temp_dir.path(),
            "hook/hook.yaml",
            &format!("failurePolicy: {failure_policy}\n"),
        );
        std::fs::copy(super::example_modules::example(hook), &module).unwrap();
        let run_output =
            virt_hook(&["run", text(&module), "--vmi", text(&unlabelled)]).success_stdout();
        assert!(run_output.starts_with(begin), "{run_output}");
    }
}

#[test]
fn run_refuses_inputs_of_another_hook_point() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let policy = write(temp_dir.path(), "policy.yaml", EVERY_POINT_POLICY);
    let device = "<disk type='file'><target dev='sda'/><alias name='ua-d'/></disk>";
    let device = write(temp_dir.path(), "disk.xml", device);
    let module = super::example_modules::hook_at_every_point();
    let run = |more: &[&str]| {
        let inputs = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &inputs[..], more].concat())
    };
    for (more, part) in [
        (
            &["--point", "PreStart", "--parameter", "max-downtime=5"][..],
            "--parameter is for PreMigrationSource",
        ),
        (
            &["--point", "PreStart", "--device", text(&device)],
            "--device is for OnAttachDevice",
        ),
        (&["--point", "OnAttachDevice"], "with --device"),
        (
            &["--device", text(&device), "--parameter", "max-downtime=5"],
            "--parameter",
        ),
    ] {
        let refused = run(more);
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    // The input decides the hook point.
    let migrated = run(&["--parameter", "max-downtime=5", "--json"]);
    assert_eq!(migrated.result()["hookPoint"], "PreMigrationSource");
    let attached = run(&["--device", text(&device)]).success_stdout();
    assert!(attached.contains("info: Hotplug: "), "{attached}");
}
