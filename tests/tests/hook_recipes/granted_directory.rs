//! A whole hook that reads a file of a granted directory, in each language, with its native test.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::binaries::workspace;
use tests::build_and_install_hooks::go_environment;

use hooks_sdk::{Context, Description, Domain, Element, Hook, HookPoint, Result, Vmi, native_call};

const TEAMS: &str = "/etc/teams";

#[derive(Debug, Default)]
struct Team;

impl Hook for Team {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths(["/domain/title"]).with_dirs([TEAMS])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        domain.set("title", team(Path::new(TEAMS), vmi)?)?;
        Ok(())
    }
}

/// The first line of the file of the VM's namespace.
fn team(directory: &Path, vmi: &Vmi) -> Result<String> {
    let file = directory.join(vmi.namespace());
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// A serial console whose log is in the VM's directory, which QEMU may write.
fn second_console(vmi: &Vmi) -> Result<Element> {
    let log = format!("/var/run/kubevirt-private/{}/second-console.log", vmi.uid());
    Ok(Element::parse(&format!(
        "<serial type='pty'>
           <log file='{log}' append='on'/>
           <target type='isa-serial' port='1'/>
           <alias name='ua-second-console'/>
         </serial>"
    ))?)
}

#[test]
fn the_log_of_a_second_console_is_in_the_directory_of_the_vm() -> Result {
    let vmi = Vmi::new(r#"{"metadata": {"uid": "5f1c9e0a"}}"#);
    let log = "/var/run/kubevirt-private/5f1c9e0a/second-console.log";
    let console = second_console(&vmi)?;
    assert!(console.is_attr("type", "pty"));
    let file = console
        .child("log")
        .is_some_and(|element| element.is_attr("file", log));
    assert!(file, "{console}");
    Ok(())
}

#[test]
fn the_team_is_in_the_file_of_the_namespace() -> Result {
    let directory = std::env::temp_dir();
    fs::write(directory.join("team-of-a-test"), "storage\n").context("the file of the test")?;
    let vmi = Vmi::new(r#"{"metadata": {"namespace": "team-of-a-test"}}"#);
    assert_eq!(team(&directory, &vmi)?, "storage");
    Ok(())
}

#[test]
fn a_missing_file_fails_the_call_by_its_name() {
    let vmi = r#"{"metadata": {"namespace": "no-team"}}"#;
    let failed = native_call::on_define_domain::<Team>(vmi, "<domain/>");
    let error = failed
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("/etc/teams/no-team"), "{error}");
}

#[test]
fn native_tests_of_the_same_hook_in_other_languages_pass() {
    for language in ["c", "go", "python"] {
        let directory = format!("tests/hooks/{language}-granted-directory");
        let output = Command::new("make")
            .args(["-f", "sdk/hook.mk", "NAME=team", "native"])
            .current_dir(workspace().join(&directory))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .envs(go_environment().unwrap())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{directory}: {printed}");
    }
}
