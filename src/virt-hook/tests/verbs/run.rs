//! `run`: one hook point on given inputs.

use super::{POLICY, smbios, text, virt_hook, vmi, write};

#[test]
fn run_shows_what_a_hook_did() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let shown = virt_hook(&["run", text(&module), "--vmi", text(&vmi)]).ok();
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
    let domain = "<domain type='kvm'><name>ns_vm</name><os/></domain>";
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
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    for (option, content, reason) in [
        ("--domain", "no XML", "foo.xml: it is not a domain XML: "),
        ("--domain", "", "foo.xml: it is not a domain XML: "),
        ("--domain", "<disk/>", "the root element is <disk>"),
        ("--device", "<disk", "foo.xml: it is not a device: "),
        ("--device", "<domain/>", "foo.xml: it is not a device: "),
    ] {
        let xml = write(place.path(), "foo.xml", content);
        let ran = virt_hook(&[
            "run",
            text(&module),
            "--vmi",
            text(&vmi),
            option,
            text(&xml),
        ]);
        assert_eq!(ran.code, 2, "{content}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(reason), "{content}: {}", ran.err);
        assert!(!ran.out.contains("cloud-init"), "{}", ran.out);
    }
}

#[test]
fn error_contains_the_position_of_a_too_low_limit() {
    let place = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(place.path()));
    let allowed = "allow: {paths: [/domain/os/smbios/**, /domain/sysinfo/**]}\n";
    let policy = format!("{allowed}limits: {{memory: 1Mi}}\n");
    let policy = write(place.path(), "policy.yaml", &policy);
    let given = ["--vmi", text(&vmi), "--policy", text(&policy)];
    let refused = virt_hook(&[&["run", text(&module)], &given[..]].concat());
    assert_eq!(refused.code, 2, "{}", refused.err);
    for part in ["may have 1048576", "limits.memory of", "policy.yaml:2:18"] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
}

/// What is not WebAssembly at all gets the policy's refusal.
#[test]
fn a_module_that_the_policy_refuses_never_reaches_the_compiler() {
    let place = tempfile::tempdir().unwrap();
    let module = write(place.path(), "garbage.wasm", "no WebAssembly");
    let listed = format!(
        "digests: Listed\nrules: [{{digests: ['{}']}}]\n",
        "0".repeat(64)
    );
    let policy = write(place.path(), "policy.yaml", &listed);
    let vmi = vmi(place.path());
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
fn run_wants_to_know_where_and_tells_of_a_veto() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let policy = write(temp_dir.path(), "policy.yaml", POLICY);
    let module = super::served_sidecar::every_point();
    let run = |more: &[&str]| {
        let given = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &given[..], more].concat())
    };
    let asked = run(&[]);
    assert_eq!(asked.code, 2);
    assert!(
        asked.err.contains("--point") && asked.err.contains("PreStart"),
        "{}",
        asked.err
    );
    let started = run(&["--point", "PreStart"]).ok();
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
    let place = tempfile::tempdir().unwrap();
    let unlabelled = vmi(place.path());
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
        let module = place.path().join("hook/hook.wasm");
        write(
            place.path(),
            "hook/hook.yaml",
            &format!("failurePolicy: {failure_policy}\n"),
        );
        std::fs::copy(super::served_sidecar::example(hook), &module).unwrap();
        let ran = virt_hook(&["run", text(&module), "--vmi", text(&unlabelled)]).ok();
        assert!(ran.starts_with(begin), "{ran}");
    }
}

#[test]
fn run_refuses_inputs_of_another_hook_point() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = vmi(temp_dir.path());
    let policy = write(temp_dir.path(), "policy.yaml", POLICY);
    let device = "<disk type='file'><target dev='sda'/><alias name='ua-d'/></disk>";
    let device = write(temp_dir.path(), "disk.xml", device);
    let module = super::served_sidecar::every_point();
    let run = |more: &[&str]| {
        let given = ["--vmi", text(&vmi), "--policy", text(&policy)];
        virt_hook(&[&["run", text(&module)], &given[..], more].concat())
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
    // An input says which hook point is meant.
    let migrated = run(&["--parameter", "max-downtime=5", "--json"]);
    assert_eq!(migrated.result()["hookPoint"], "PreMigrationSource");
    let attached = run(&["--device", text(&device)]).ok();
    assert!(attached.contains("info: Hotplug: "), "{attached}");
}
