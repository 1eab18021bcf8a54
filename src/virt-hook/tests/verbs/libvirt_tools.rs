//! What `check` makes of libvirt's tools: of tools that do not start, do not answer, or cannot be confined. The tools are
//! scripts here; `check_migration_and_libvirt` uses the real ones.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::Value;

use super::check::finding_of;
use super::handwritten_module::editing_module;
use super::{ProgramOutput, VMI, program, text, write};

/// A `virsh` that defines every domain, unless `HOOKED` does otherwise for one with the hook's change.
const VIRSH: &str = "case $1 in --version) echo 9.0.0; exit;; esac\n\
    if grep -q '<title>by the hook' domain.xml; then HOOKED\nfi\ncat domain.xml\n";

/// A module that gives every domain a title.
fn module() -> &'static Path {
    static MODULE: OnceLock<(tempfile::TempDir, std::path::PathBuf)> = OnceLock::new();
    let write = || {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join("titled.wasm");
        let title = "<title>by the hook</title><os>";
        fs::write(&path, editing_module(&["/domain/title"], "<os>", title)).unwrap();
        (temp_dir, path)
    };
    &MODULE.get_or_init(write).1
}

/// Runs `check` with scripts as tools.
fn check_with(tools: &[(&str, &str)]) -> ProgramOutput {
    let temp_dir = tempfile::tempdir().unwrap();
    // Tools of root run as nobody.
    fs::set_permissions(temp_dir.path(), Permissions::from_mode(0o755)).unwrap();
    for (name, script) in tools {
        let script = match script.starts_with("#!") {
            true => (*script).to_owned(),
            false => format!("#!/bin/sh\n{script}"),
        };
        let tool = write(temp_dir.path(), name, &script);
        fs::set_permissions(tool, Permissions::from_mode(0o755)).unwrap();
    }
    let vmi = write(temp_dir.path(), "vmi.yaml", VMI);
    let path = format!("{}:/usr/bin:/bin", temp_dir.path().display());
    let mut check = program();
    check.args(["check", text(module()), "--vmi", text(&vmi), "--json"]);
    check.env("PATH", path).output().unwrap().into()
}

fn verdict_and_message<'a>(json: &'a Value, check: &str) -> (&'a str, &'a str) {
    let finding = finding_of(json, check);
    let text = |member: &str| finding[member].as_str().unwrap();
    (text("verdict"), text("message"))
}

#[test]
fn a_tool_that_does_not_start_or_does_not_answer_gives_no_verdict() {
    let loader =
        "error while loading shared libraries: libvirt.so.0: cannot open shared object file";
    let missing_library = format!("echo 'virsh: {loader}' >&2; exit 127");
    for (script, part) in [
        (&missing_library[..], loader),
        ("exit 126", "virsh does not start: it does not say why"),
        ("#!/nonexistent\n", "virsh does not start: No such file"),
        ("kill -9 $$", "virsh was killed"),
        // The code of the process that ends a tool after its deadline.
        ("exit 124", "virsh did not answer within 60s"),
    ] {
        let json = check_with(&[("virsh", script)]).json();
        for check in ["libvirt version", "libvirt", "after libvirt"] {
            let (verdict, message) = verdict_and_message(&json, check);
            assert_eq!(verdict, "not-checked", "{script}, {check}: {message}");
            assert!(message.contains(part), "{script}, {check}: {message}");
        }
    }
}

/// What libvirt does not survive, or never finishes, with the hook alone is the hook's fault.
#[test]
fn a_domain_that_libvirt_does_not_survive_with_the_hook_alone_is_refused() {
    for (hooked, part, vmis) in [
        ("kill -9 $$", "virsh was killed", 7),
        // After the second, libvirt is given no other domain.
        ("exit 124", "virsh did not answer within 60s", 2),
    ] {
        let json = check_with(&[("virsh", &VIRSH.replace("HOOKED", hooked))]).json();
        let finding = finding_of(&json, "libvirt");
        assert_eq!(finding["verdict"], "failed", "{hooked}: {json:#}");
        let details = finding["details"].to_string();
        assert!(details.contains(part), "{hooked}: {details}");
        assert!(details.contains("/domain/title"), "{hooked}: {details}");
        let names = details.split(": libvirt says").next().unwrap();
        assert_eq!(names.split(", ").count(), vmis, "{hooked}: {details}");
    }
}

#[test]
fn what_libvirt_refused_is_reported_although_its_tools_then_fail() {
    let hooked = "if [ -e $HOME/cache ]; then exit 127; fi\n\
        mkdir $HOME/cache; echo 'error: Failed' >&2; echo 'error: no such luck' >&2; exit 1";
    let checked = check_with(&[("virsh", &VIRSH.replace("HOOKED", hooked))]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    let json = checked.json();
    let finding = finding_of(&json, "libvirt");
    assert_eq!(finding["verdict"], "failed", "{json:#}");
    let details = finding["details"].to_string();
    assert!(details.contains("libvirt says: no such luck"), "{details}");
    let (verdict, message) = verdict_and_message(&json, "after libvirt");
    assert_eq!(verdict, "not-checked", "{json:#}");
    assert!(message.contains("virsh does not start"), "{message}");
}

/// libvirt waits for the end of a QEMU that it has killed, and takes one that nobody reaps for alive.
#[test]
fn processes_whose_parent_has_ended_are_reaped_while_the_tool_runs() {
    let virsh = "orphan=$(sh -c 'sleep 0.1 >/dev/null 2>&1 & echo $!')\n\
        for n in $(seq 100); do kill -0 $orphan 2>/dev/null || break; sleep 0.1; done\n\
        kill -0 $orphan 2>/dev/null && echo not-reaped || echo 9.0.0\n";
    let json = check_with(&[("virsh", virsh)]).json();
    let (verdict, message) = verdict_and_message(&json, "libvirt version");
    assert_eq!(verdict, "passed", "{message}");
}

#[test]
fn no_tool_runs_as_root() {
    let own = rustix::process::geteuid();
    let expected = match own.is_root() {
        true => 65_534,
        false => own.as_raw(),
    };
    let expected = format!("uid-{expected}");
    let virsh = "echo \"error: x\" >&2; echo \"error: uid-$(id -u)\" >&2\n\
        case $1 in --version) echo uid-$(id -u);; esac\nexit 1";
    let xmllint = "for f; do case $f in\n*-before.xml) echo \"$f validates\" >&2;;\n\
        *-after.xml) echo \"$f:uid-$(id -u)\" >&2;;\nesac; done";
    let json = check_with(&[("virsh", virsh), ("xmllint", xmllint)]).json();
    for check in ["libvirt version", "schema", "libvirt"] {
        let finding = finding_of(&json, check).to_string();
        assert!(finding.contains(&expected), "{check}: {finding}");
    }
}

/// Runs `check` where the system calls with these numbers fail with an error.
fn check_without_calls(
    calls: &[libc::c_long],
    errno: i32,
    tools: &[(&str, &str)],
) -> ProgramOutput {
    thread::scope(|scope| {
        let run = || {
            let calls = calls.iter().map(|call| (*call, Vec::new())).collect();
            let fail = SeccompAction::Errno(errno.unsigned_abs());
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let filter = SeccompFilter::new(calls, SeccompAction::Allow, fail, arch).unwrap();
            let program: BpfProgram = filter.try_into().unwrap();
            // It holds for this thread and the processes that it starts.
            apply_filter(&program).unwrap();
            check_with(tools)
        };
        scope.spawn(run).join().unwrap()
    })
}

#[test]
fn no_tool_is_started_if_confining_it_fails() {
    let temp_dir = tempfile::tempdir().unwrap();
    fs::set_permissions(temp_dir.path(), Permissions::from_mode(0o777)).unwrap();
    let virsh = format!("touch {}/started", temp_dir.path().display());
    let calls = [libc::SYS_landlock_restrict_self];
    let checked = check_without_calls(&calls, libc::EPERM, &[("virsh", &virsh)]);
    let json = checked.json();
    for check in ["libvirt version", "libvirt", "after libvirt"] {
        let (verdict, message) = verdict_and_message(&json, check);
        assert_eq!(verdict, "not-checked", "{check}: {message}");
        assert!(
            message.contains("virsh is not run, because it cannot be confined: "),
            "{check}: {message}"
        );
    }
    assert!(!temp_dir.path().join("started").exists());
}

#[test]
fn check_warns_of_a_kernel_without_landlock_and_uses_the_tools() {
    let tools = [("virsh", &*VIRSH.replace("HOOKED", "true"))];
    let calls = [libc::SYS_landlock_create_ruleset];
    let json = check_without_calls(&calls, libc::ENOSYS, &tools).json();
    let warnings = json["warnings"].to_string();
    assert!(
        warnings.contains("does not keep libvirt's tools from this: read, write and run any file"),
        "{warnings}"
    );
    assert_eq!(
        verdict_and_message(&json, "libvirt").0,
        "passed",
        "{json:#}"
    );
    let [landlock, _] = hook_host::wasm::kernel_features();
    if landlock.missing.is_none() {
        let json = check_with(&tools).json();
        let warnings = json["warnings"].to_string();
        assert!(!warnings.contains("any file"), "{warnings}");
    }
}
