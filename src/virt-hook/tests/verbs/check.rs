//! `check`: the verdicts on a sound hook and on others.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::example_modules::{example, hook_at_every_point, misbehaving_hook};
use super::{smbios, text, virt_hook, vmi, write};

pub(super) fn finding_of<'a>(json: &'a Value, check: &str) -> &'a Value {
    let findings = json["result"]["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == check);
    finding.unwrap_or_else(|| panic!("{check}: {json:#}"))
}

#[test]
fn a_sound_hook_passes_all_checks() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let checked = virt_hook(&["check", text(&module), "--vmi", text(&vmi), "--json"]);
    let json = checked.json();
    assert_eq!(checked.code, 0, "{}", checked.out);
    for check in [
        "size",
        "world",
        "compiling",
        "hook points",
        "wishes and imports",
        "runs",
        "changes",
        "idempotent",
        "limits",
        "migration",
        "schema",
        "libvirt",
        "after libvirt",
    ] {
        assert_eq!(
            finding_of(&json, check)["verdict"],
            "passed",
            "{check}: {json:#}"
        );
    }
    // On this VMI the hook needs one of its two wishes.
    assert_eq!(json["result"]["verdict"], "doubtful", "{json:#}");
    let shown = virt_hook(&[
        "check",
        text(&module),
        "--vmi",
        text(&vmi),
        "--without-libvirt",
    ]);
    let shown = shown.success_stdout();
    let last = shown.lines().last().unwrap();
    assert_eq!(last, "doubtful: 1 (wishes) of 11 checks", "{shown}");
}

/// A VMI that names its architecture is on a node of it; `--arch` chooses the built-in ones.
#[test]
fn a_hook_is_checked_on_vmis_of_other_architectures() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let [arm64, s390x] = ["arm64", "s390x"].map(|architecture| {
        let vmi = format!(
            "metadata: {{name: own, namespace: default, annotations: {{smbios.vm.kubevirt.io/baseBoardManufacturer: R}}}}\n\
             spec: {{architecture: {architecture}, domain: {{devices: {{}}, memory: {{guest: 64Mi}}}}}}\n"
        );
        write(temp_dir.path(), &format!("{architecture}.yaml"), &vmi)
    });
    let with_both = ["check", text(&module), "--vmi", text(&arm64), "--vmi"];
    let checked = virt_hook(&[&with_both[..], &[text(&s390x), "--json"]].concat());
    assert_eq!(checked.code, 0, "{}", checked.out);
    let json = checked.json();
    let schema = finding_of(&json, "schema").to_string();
    assert!(schema.contains("8 domains"), "{schema}");
    let on_s390x = ["--arch", "s390x", "--without-libvirt", "--json"];
    let refused = virt_hook(&[&with_both[..], &[text(&s390x)], &on_s390x].concat());
    assert_eq!(refused.code, 1, "{}", refused.out);
    let reason = "spec.architecture is arm64, and the node is s390x";
    assert!(refused.out.contains(reason), "{}", refused.out);
    let json = refused.json();
    for check in ["runs", "idempotent", "migration"] {
        let finding = finding_of(&json, check);
        assert_eq!(finding["verdict"], "passed", "{check}: {json:#}");
    }
}

#[test]
fn a_refused_vmi_is_a_finding_and_the_others_are_checked() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    // An architecture that conversion refuses.
    let refused = super::VMI.replace("spec:\n", "spec:\n  architecture: vax\n");
    let refused = write(temp_dir.path(), "refused/vmi.yaml", &refused);
    let check = || {
        let arguments = ["check", text(&module), "--without-libvirt", "--json"];
        let vmis = ["--vmi", text(&refused), "--vmi", text(&vmi)];
        virt_hook(&[&arguments[..], &vmis].concat())
    };
    let checked = check();
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    let json = checked.json();
    assert!(
        finding_of(&json, "VMIs")["details"]
            .to_string()
            .contains("vax"),
        "{json:#}"
    );
    let runs = finding_of(&json, "runs");
    assert!(
        runs["message"].as_str().unwrap().starts_with("7 VMIs"),
        "{runs}"
    );
    // The VMI of a test case that expects the refusal.
    write(
        temp_dir.path(),
        "refused/expected.error",
        "the architecture vax\n",
    );
    let json = check().json();
    assert!(
        json.to_string().contains("\"runs\"") && !json.to_string().contains("\"VMIs\""),
        "{json:#}"
    );
}

#[test]
fn unused_wishes_are_reported() {
    let json = virt_hook(&["check", text(&smbios()), "--json", "--without-libvirt"]).json();
    let wishes = finding_of(&json, "wishes");
    assert_eq!(wishes["verdict"], "doubtful");
    assert!(wishes["message"].as_str().unwrap().contains("--vmi"));
    assert_eq!(wishes["details"].as_array().unwrap().len(), 2);
}

#[test]
fn rules_of_a_policy_apply_in_their_namespace() {
    let temp_dir = tempfile::tempdir().unwrap();
    let (module, vmi) = (smbios(), vmi(temp_dir.path()));
    let policy = write(
        temp_dir.path(),
        "policy.yaml",
        "allow: {paths: []}\nrules:\n- namespaces: [ns]\n  allow: {paths: ['/domain/**']}\n",
    );
    let check = |more: &[&str]| {
        let arguments = [
            "check",
            text(&module),
            "--without-libvirt",
            "--policy",
            text(&policy),
        ];
        virt_hook(&[&arguments[..], more].concat())
    };
    check(&["--vmi", text(&vmi)]).success_stdout();
    check(&["--namespace", "ns"]).success_stdout();
    for options in [&[][..], &["--vmi", text(&vmi), "--namespace", "b"]] {
        let checked = check(options);
        assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
        let finding = "FAILED       policy: ";
        assert!(checked.out.contains(finding), "{}", checked.out);
        assert!(checked.out.contains("it wants the path"), "{}", checked.out);
    }
    let other = fs::read_to_string(&vmi).unwrap();
    let other = write(
        temp_dir.path(),
        "other.yaml",
        &other.replace("namespace: ns", "namespace: b"),
    );
    let both = check(&["--vmi", text(&vmi), "--vmi", text(&other)]);
    assert_eq!(both.code, 2, "{}{}", both.out, both.err);
    assert!(both.err.contains("--namespace"), "{}", both.err);
}

/// The hook adds a title at each run: it is not idempotent, and libvirt does not accept two titles.
#[test]
fn a_hook_that_is_not_idempotent_fails() {
    let module = misbehaving_hook();
    let checked = virt_hook(&["check", text(&module)]);
    assert_eq!(checked.code, 1, "{}{}", checked.out, checked.err);
    assert!(
        checked.out.contains("FAILED       idempotent: ")
            && checked.out.contains("performance: the second time, ")
            && checked.out.contains("/domain has several <title>")
            && checked.out.contains("FAILED       migration: ")
            && checked.out.contains("ok           libvirt: ")
            && checked.out.contains("FAILED       after libvirt: "),
        "{}",
        checked.out
    );
    // The cause is stated once, and each consequence has a line.
    let consequence = ": probably a consequence of `idempotent`";
    assert_eq!(
        checked.out.matches(consequence).count(),
        2,
        "{}",
        checked.out
    );
    assert!(checked.err.contains("checks failed"), "{}", checked.err);
}

#[test]
fn a_failure_on_a_vmi_of_the_author_fails_unless_it_is_expected() {
    let temp_dir = tempfile::tempdir().unwrap();
    let fails = super::VMI.replace("do: nothing", "do: fail");
    let vmi = write(temp_dir.path(), "case/vmi.yaml", &fails);
    let module = temp_dir.path().join("hook/every.wasm");
    write(temp_dir.path(), "hook/hook.yaml", "{}\n");
    fs::copy(hook_at_every_point(), &module).unwrap();
    let runs = |settings: &str| {
        write(temp_dir.path(), "hook/hook.yaml", settings);
        let arguments = ["check", text(&module), "--vmi", text(&vmi)];
        let json = virt_hook(&[&arguments[..], &["--without-libvirt", "--json"]].concat()).json();
        finding_of(&json, "runs").clone()
    };
    // The hook needs a configuration that this hook.yaml lacks.
    let without_config = runs("{}\n");
    assert_eq!(without_config["verdict"], "failed", "{without_config:#}");
    assert_eq!(without_config["message"], "it fails on every VMI");
    let configured = "config: {colour: red}\n";
    let of_author = runs(configured);
    assert_eq!(of_author["verdict"], "failed", "{of_author:#}");
    assert_ne!(of_author["message"], "it fails on every VMI");
    write(
        temp_dir.path(),
        "case/expected.error",
        "no licence server\n",
    );
    let expected = runs(configured);
    assert_eq!(expected["verdict"], "doubtful", "{expected:#}");
}

#[test]
fn a_hook_that_refuses_every_vmi_is_not_called_idempotent() {
    let module = example("required-label-hook");
    let json = virt_hook(&["check", text(&module), "--json", "--without-libvirt"]).json();
    let idempotent = finding_of(&json, "idempotent");
    assert_eq!(idempotent["verdict"], "not-checked", "{json:#}");
}

#[test]
fn component_without_hook_exports_fails_the_world_check() {
    let temp_dir = tempfile::tempdir().unwrap();
    let empty_component = "\0asm\r\0\u{1}\0";
    let component = write(temp_dir.path(), "x.wasm", empty_component);
    let checked = virt_hook(&["check", text(&component), "--json"]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    assert_eq!(finding_of(&checked.json(), "world")["verdict"], "failed");
}

/// A VMI whose data is in a Secret does not end the checks on the others.
#[test]
fn cloud_init_data_that_is_not_here_is_a_finding() {
    let temp_dir = tempfile::tempdir().unwrap();
    let volume = "    devices: {disks: [{name: seed, disk: {bus: virtio}}]}\n";
    let vmi = super::VMI.replace("    devices: {}\n", volume)
        + "  volumes:\n  - name: seed\n    cloudInitNoCloud: {secretRef: {name: web-data}}\n";
    let vmi = write(temp_dir.path(), "vmi.yaml", &vmi);
    let check = |module: &Path| {
        let arguments = ["check", text(module), "--vmi", text(&vmi)];
        virt_hook(&[&arguments[..], &["--without-libvirt", "--json"]].concat()).json()
    };
    let json = check(&example("cloud-init-hook"));
    let finding = finding_of(&json, "cloud-init");
    assert_eq!(finding["verdict"], "not-checked", "{json:#}");
    let details = finding["details"].to_string();
    assert!(details.contains("the Secret web-data"), "{details}");
    assert_eq!(finding_of(&json, "idempotent")["verdict"], "passed");
    // A hook that is not called at PreCloudInitIso.
    let json = check(&smbios());
    let findings = json["result"]["findings"].as_array().unwrap();
    assert!(
        findings
            .iter()
            .all(|finding| finding["check"] != "cloud-init")
    );
}
