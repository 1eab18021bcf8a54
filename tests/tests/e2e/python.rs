//! A hook in Python where it is to run: compiled in the pod, compiled with the image, and served.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::binaries::binary;
use tests::hooks;
use tests::pod::User;
use tests::scenario::{Scene, Stage};
use tests::vmi::Vmi;

use super::served::Served;

const QEMU_TIMEOUT: Duration = Duration::from_secs(240);
const MANUFACTURER: &str = "board.example.com/manufacturer";

/// The module, built once.
fn module() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let makefile = "../../../examples-hooks/python-interfaces/Makefile";
    let make = || hooks::made("tests/hooks/python-board", makefile, "board");
    let built = BUILT.get_or_init(|| make().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

/// A directory of the image with what the module compiles to: root's, on the programs' own mount.
fn baked() -> Result<TempDir> {
    let image = tempfile::tempdir()?;
    fs::set_permissions(image.path(), Permissions::from_mode(0o755))?;
    let output = Command::new(binary("virt-hook")?)
        .arg("compile")
        .arg(module()?)
        .arg("--into")
        .arg(image.path())
        .output()
        .context("virt-hook compile")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(image)
}

fn vmi(name: &str) -> Vmi {
    Vmi::new(name, User::Nonroot)
        .annotate(MANUFACTURER, "Monty & Sons")
        .cloud_init("#cloud-config\nhostname: board\n")
}

/// Boots, and gives the launcher's log after the end; the guest must have got what the hook wrote.
async fn boots_with_the_board(vmi: &Vmi, scene: Scene) -> Result<String> {
    scene.boot_to_ready(vmi).await?;
    let console = scene.pod.console(vmi);
    for told in [
        "board_vendor: Monty & Sons",
        "user-data: # Python, noCloud, boot",
    ] {
        assert!(console.told(told), "no {told}: {}", console.text());
    }
    scene.close_with_log(vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_hook_is_compiled_in_the_pod_within_the_limits_that_it_has_anyway() -> Result<()> {
    let vmi = vmi("python");
    let stage = Stage::set(User::Nonroot)?;
    hooks::install(&stage.pod.hooks_dir()?, "hook-sidecar-0", &module()?)?;
    // What virt-controller gives.
    let arguments = ["--hook-sidecars", "1", "--qemu-timeout", "240s"];
    let scene = stage.start_within(&vmi, &arguments, QEMU_TIMEOUT).await?;
    let log = boots_with_the_board(&vmi, scene).await?;
    assert!(
        log.contains("a module was compiled") && log.contains("the end, in Python"),
        "{log}"
    );
    Ok(())
}

/// An exception first, which a retry with another VMI does not remember.
async fn in_the_launcher(image: &Path) -> Result<()> {
    let vmi = vmi("baked");
    let without = vmi.clone().edit(|vmi| {
        vmi["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(MANUFACTURER);
    });
    let stage = Stage::set(User::Nonroot)?;
    hooks::install(&stage.pod.hooks_dir()?, "hook-sidecar-0", &module()?)?;
    let artifacts = image.to_string_lossy();
    let arguments = ["--hook-sidecars", "1", "--hook-artifacts", &artifacts];
    let scene = stage.start(&vmi, &arguments).await?;
    let answer = scene.commands.sync(&without).await?;
    assert!(
        !answer.success && answer.message.contains("(hook.py:"),
        "{answer:?}"
    );
    assert_eq!(scene.commands.domain().await?, Value::Null);
    let log = boots_with_the_board(&vmi, scene).await?;
    assert!(!log.contains("a module was compiled"), "{log}");
    Ok(())
}

async fn served(image: &Path) -> Result<()> {
    let vmi = vmi("served");
    let stage = Stage::set(User::Nonroot)?;
    let directory = stage.pod.hooks_dir()?.join("hook-sidecar-0");
    let _served = Served::sidecar(&directory, &module()?, image).await?;
    let scene = stage.start(&vmi, &["--hook-sidecars", "1"]).await?;
    boots_with_the_board(&vmi, scene).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_hook_compiled_with_the_image_runs_in_the_launcher_and_served() -> Result<()> {
    let image = baked()?;
    in_the_launcher(image.path()).await?;
    served(image.path()).await
}
