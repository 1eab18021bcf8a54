//! Hooks that are missing, invalid or surplus end the launcher before it is ready.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::PreparedPod;
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Starts a launcher whose hooks cannot be collected, waits for its exit, and returns its log.
async fn log_of_failed_collection(
    hooks: usize,
    timeout: &str,
    install_hooks: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let vmi = Vmi::new("nohooks", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    install_hooks(&prepared.pod.hooks_dir()?)?;
    prepared.pod.start(
        &vmi,
        &[
            "--hook-sidecars",
            &hooks.to_string(),
            "--qemu-timeout",
            timeout,
        ],
    )?;
    let status = prepared.pod.wait_for_exit(Duration::from_secs(20)).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    assert!(
        !prepared
            .pod
            .path("/run/kubevirt/sockets/launcher-sock")
            .exists()
    );
    Ok(prepared.pod.log())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_hooks_end_the_launcher_with_their_names() -> Result<()> {
    let log = log_of_failed_collection(2, "2s", |hooks_dir| {
        hooks::install(hooks_dir, "hook-sidecar-0", &hooks::example("smbios-hook")?)
    });
    let log = log.await?;
    assert!(
        log.contains("hook-sidecar-0"),
        "what has arrived is named: {log}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_module_ends_the_launcher_before_the_deadline() -> Result<()> {
    let log = log_of_failed_collection(1, "60s", |hooks_dir| {
        hooks::install_bytes(hooks_dir, "hook-sidecar-0", b"\x7fELF is not a component")
    });
    let log = log.await?;
    assert!(log.contains("hook-sidecar-0"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surplus_hooks_are_refused_by_name() -> Result<()> {
    let log = log_of_failed_collection(1, "20s", |hooks_dir| {
        hooks::install(hooks_dir, "hook-sidecar-0", &hooks::example("smbios-hook")?)?;
        hooks::install(
            hooks_dir,
            "hook-sidecar-1",
            &hooks::example("cloud-init-hook")?,
        )
    });
    let log = log.await?;
    assert!(
        log.contains("hook-sidecar-0") && log.contains("hook-sidecar-1"),
        "{log}"
    );
    Ok(())
}
