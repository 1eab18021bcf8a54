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
