//! A hook in Python: compiled in the pod, precompiled in the image, and served as a sidecar.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::binaries::{binary, copy_program};
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

use super::virt_hook_serve_process::VirtHookServe;

const QEMU_TIMEOUT: Duration = Duration::from_secs(240);
const MANUFACTURER: &str = "board.example.com/manufacturer";

/// The module, built once.
fn module() -> Result<PathBuf> {
    static MODULE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || {
        hooks::build_with_make(
            "tests/hooks/python-every-hook-point",
            "sdk/hook.mk",
            "board",
        )
    };
    let module = MODULE.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    module.clone().map_err(anyhow::Error::msg)
}

/// A directory of root that stands for an image: artifacts are used only if they are on the mount of the program.
struct Image(TempDir);

impl Image {
    fn artifacts(&self) -> PathBuf {
        self.0.path().join("artifacts")
    }

    fn virt_hook(&self) -> PathBuf {
        self.0.path().join("virt-hook")
    }
}

/// Makes an image of `virt-hook` and the precompiled module.
fn precompile() -> Result<Image> {
    let image = Image(tempfile::tempdir()?);
    fs::create_dir(image.artifacts())?;
    for directory in [image.0.path(), &image.artifacts()] {
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    copy_program(&binary("virt-hook")?, &image.virt_hook())?;
    let output = Command::new(binary("virt-hook")?)
        .arg("compile")
        .arg(module()?)
        .arg("--into")
        .arg(image.artifacts())
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
    Vmi::new(name, LauncherUser::Nonroot)
        .annotate(MANUFACTURER, "Monty & Sons")
        .cloud_init("#cloud-config\nhostname: board\n")
}

/// Boots the VM, checks that the guest has the hook's changes, and returns the launcher's log.
async fn boot_and_check_board(vmi: &Vmi, fixture: LauncherFixture) -> Result<String> {
    fixture.boot_and_read_reports(vmi).await?;
    let console = fixture.pod.console(vmi);
    for part in [
        "board_vendor: Monty & Sons",
        "user-data: # Python, noCloud, boot",
    ] {
        assert!(console.has_reported(part), "no {part}: {}", console.text());
    }
    fixture.end_vm_and_read_log(vmi).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_python_hook_is_compiled_in_the_pod_within_the_default_limits() -> Result<()> {
    let vmi = vmi("python");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", &module()?)?;
    // 240s is virt-controller's value.
    let arguments = ["--hook-sidecars", "1", "--qemu-timeout", "240s"];
    let fixture = prepared
        .start_within(&vmi, &arguments, QEMU_TIMEOUT)
        .await?;
    let log = boot_and_check_board(&vmi, fixture).await?;
    assert!(
        log.contains("a module was compiled") && log.contains("the end, in Python"),
        "{log}"
    );
    Ok(())
}

/// The first call raises an exception, which must not affect a retry with another VMI.
async fn check_in_launcher(image: &Image) -> Result<()> {
    let vmi = vmi("precompiled");
    let vmi_without_annotation = vmi.clone().edit(|vmi| {
        vmi["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove(MANUFACTURER);
    });
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    hooks::install(&prepared.pod.hooks_dir()?, "hook-sidecar-0", &module()?)?;
    let artifacts = image.artifacts();
    let artifacts = artifacts.to_string_lossy();
    let arguments = ["--hook-sidecars", "1", "--hook-artifacts", &artifacts];
    let fixture = prepared.start(&vmi, &arguments).await?;
    let answer = fixture.commands.sync(&vmi_without_annotation).await?;
    assert!(
        !answer.success && answer.message.contains("(hook.py:"),
        "{answer:?}"
    );
    assert_eq!(fixture.commands.domain().await?, Value::Null);
    let log = boot_and_check_board(&vmi, fixture).await?;
    assert!(!log.contains("a module was compiled"), "{log}");
    Ok(())
}

/// Checks the precompiled module in a process of `virt-hook serve`.
async fn check_served(image: &Image) -> Result<()> {
    let vmi = vmi("served");
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let directory = prepared.pod.hooks_dir()?.join("hook-sidecar-0");
    let _serve_process = VirtHookServe::sidecar(
        &image.virt_hook(),
        &directory,
        &module()?,
        &image.artifacts(),
    )
    .await?;
    let fixture = prepared.start(&vmi, &["--hook-sidecars", "1"]).await?;
    boot_and_check_board(&vmi, fixture).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_precompiled_python_hook_runs_in_the_launcher_and_served() -> Result<()> {
    let image = precompile()?;
    check_in_launcher(&image).await?;
    check_served(&image).await
}
