//! A pod of a user who is not root, as `make demo DRIVER=test` makes it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use tests::not_tested::{Missing, not_tested};
use tests::pod::Pod;

const NOBODY: u32 = 65534;

/// Whether the kernel lets a user who is not root mount in a user namespace.
fn has_user_namespaces() -> Result<bool> {
    let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let unshare = Command::new("setpriv")
        .args(ids)
        .args(["--clear-groups", "unshare", "--map-root-user", "--mount"])
        .args(["mount", "-t", "tmpfs", "none", "/tmp"])
        .output()?;
    Ok(unshare.status.success())
}

#[tokio::test]
async fn pod_starts_in_a_user_namespace() -> Result<()> {
    if !has_user_namespaces()? {
        let missing = Missing::OfMachine("user namespaces for users who are not root");
        return not_tested("a pod without root", missing);
    }
    let mut pod = Pod::create_unprivileged()?;
    pod.set_creator(NOBODY)?;
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
