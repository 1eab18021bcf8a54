//! The pod of a user who is not root, as `make demo DRIVER=test` creates it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::not_tested::{Missing, not_tested};
use tests::pod::Pod;

const NOBODY_UID: u32 = 65534;

/// Whether a command succeeds for a user who is not root.
fn succeeds_as_nobody(command: &[&str]) -> Result<bool> {
    let ids = [
        format!("--reuid={NOBODY_UID}"),
        format!("--regid={NOBODY_UID}"),
    ];
    let output = Command::new("setpriv")
        .args(ids)
        .arg("--clear-groups")
        .args(command)
        .output()?;
    Ok(output.status.success())
}

/// Whether the kernel allows a user who is not root to mount file systems in a user namespace.
fn has_user_namespaces() -> Result<bool> {
    let mount = ["mount", "-t", "tmpfs", "none", "/tmp"];
    succeeds_as_nobody(&[&["unshare", "--map-root-user", "--mount"], &mount[..]].concat())
}

/// Whether a user who is not root can enter a directory.
fn can_nobody_enter(directory: &Path) -> Result<bool> {
    let directory = directory.to_str().context("a path in UTF-8")?;
    succeeds_as_nobody(&["test", "-x", directory])
}

#[test]
fn directories_of_root_alone_cannot_be_entered() -> Result<()> {
    let private = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()?;
    ensure!(!can_nobody_enter(private.path())?, "{private:?}");
    ensure!(can_nobody_enter(Path::new("/"))?, "/");
    Ok(())
}

#[tokio::test]
async fn pod_starts_in_a_user_namespace() -> Result<()> {
    if !has_user_namespaces()? {
        let missing = Missing::MachineFeature("user namespaces for users who are not root");
        return not_tested("a pod without root", missing);
    }
    if !can_nobody_enter(&std::env::temp_dir())? {
        let missing = Missing::MachineFeature("a TMPDIR that users who are not root can enter");
        return not_tested("a pod without root", missing);
    }
    let mut pod = Pod::create_unprivileged()?;
    pod.set_creator(NOBODY_UID)?;
    let script = "set -eu; test \"$(id -u)\" = 107; test -c /dev/null; : >/run/kubevirt/written";
    pod.run(Path::new("/bin/sh"), &["-c", script])?;
    let status = pod.wait_for_exit(Duration::from_secs(60)).await?;
    ensure!(status.success(), "{status}: {}", pod.log());
    ensure!(
        pod.path("/run/kubevirt/written").exists(),
        "nothing is written"
    );
    Ok(())
}
