//! `policy check`: the report on a policy, and on modules under it.

use super::{smbios, text, virt_hook, write};

#[test]
fn policy_check_prints_the_policy_and_its_gaps() {
    let temp_dir = tempfile::tempdir().unwrap();
    let policy = write(
        temp_dir.path(),
        "p.yaml",
        "sidecars: Forbid\nallow: {paths: [/domain/title]}\n",
    );
    let report = virt_hook(&["policy", "check", text(&policy)]).success_stdout();
    for part in [
        "gRPC sidecars: none",
        "  paths: /domain/title",
        "p.yaml: any module may run",
        "p.yaml:2:8: without `hookPoints`",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    for (content, place_and_reason) in [
        ("allow:\n  paths:\n", "p.yaml:2:"),
        ("allow: {dangerous: ['/domain/**']}\n", "p.yaml:1:21: "),
    ] {
        let policy = write(temp_dir.path(), "p.yaml", content);
        let refused = virt_hook(&["policy", "check", text(&policy)]);
        assert_eq!(refused.code, 2, "{}{}", refused.out, refused.err);
        assert!(refused.err.contains(place_and_reason), "{}", refused.err);
    }
    let missing = virt_hook(&["policy", "check", "/nonexistent.yaml"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
}

#[test]
fn a_module_runs_with_the_policy_that_is_printed() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let narrow = write(
        temp_dir.path(),
        "narrow.yaml",
        "allow: {paths: [/domain/os/smbios/**]}\n",
    );
    let check = |policy: &str| virt_hook(&["policy", "check", policy, "--module", text(&module)]);
    let refused = check(text(&narrow));
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert!(refused.out.contains("/domain/sysinfo"), "{}", refused.out);
    assert!(refused.out.contains("narrow.yaml:1:"), "{}", refused.out);
    // The printed text is a policy with which the module runs.
    let (_, needed) = refused.out.split_once("that it needs:\n\n").unwrap();
    let needed = write(temp_dir.path(), "needed.yaml", needed);
    let report = check(text(&needed)).success_stdout();
    assert!(report.contains("ok  "), "{report}");
}

/// What the operator enforces, and what the operator has withdrawn.
#[test]
fn final_and_denied_modules_are_shown() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = smbios();
    let inspected = virt_hook(&["inspect", text(&module), "--json"]).json();
    let sha256 = inspected["result"]["sha256"].as_str().unwrap();
    let check = |policy: &str| {
        let policy = write(temp_dir.path(), "p.yaml", policy);
        virt_hook(&["policy", "check", text(&policy), "--module", text(&module)])
    };
    let rule = format!("rules:\n- digests: [{sha256}]\n  final: true\n");
    let report = check(&rule).success_stdout();
    for part in [
        &format!(
            "sha256 {sha256}, instead:\n  final: called after all other hooks, what it changed is sealed\n"
        ),
        &format!("ok  {} (final)\n", text(&module)),
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    let denied = check(&format!("{rule}deniedDigests: [{sha256}]\n"));
    assert_eq!(denied.code, 1, "{}{}", denied.out, denied.err);
    for part in [
        format!("never: sha256 {sha256}\n"),
        "p.yaml:4:17: a rule lists this digest, too".to_owned(),
        format!("p.yaml:4:17: the operator denies the module with the sha256 {sha256}"),
    ] {
        assert!(denied.out.contains(&part), "{part}: {}", denied.out);
    }
    let weakened = write(temp_dir.path(), "h/hook.yaml", "hookPoints: []\n");
    let copy = weakened.with_file_name("smbios.wasm");
    std::fs::copy(&module, &copy).unwrap();
    let policy = write(temp_dir.path(), "p.yaml", &rule);
    let refused = virt_hook(&["policy", "check", text(&policy), "--module", text(&copy)]);
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert!(
        refused
            .out
            .contains("hookPoints is not accepted beside a final hook"),
        "{}",
        refused.out
    );
}
