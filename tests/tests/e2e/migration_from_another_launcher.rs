//! A VM that another launcher has started migrates to this build's launcher, back and again here, while its guest counts
//! on. That is what an upgrade does to a running VM, and a rollback.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tests::binaries::binary;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture};
use tests::migration::{MigratingVm, PreparedMigration, stock_options};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;
use tokio::time::Instant;

/// Counts in the guest's memory, ten times a second. A reader never sees a half-written number.
const COUNT: &str = "(i=0; while :; do i=$((i+1)); echo $i >/count.new; mv /count.new /count; sleep 0.1; done) \
                     </dev/null >/dev/null 2>&1 &";
/// As KubeVirt v1.9's virt-controller starts every launcher.
const ARGUMENTS: [&str; 1] = ["--libvirt-hook-server-and-client"];

/// The directory that an environment variable names.
fn directory(variable: &str) -> Result<PathBuf> {
    let directory = std::env::var_os(variable).map(PathBuf::from);
    let directory = directory
        .with_context(|| format!("{variable}=DIR is not set: scripts/test-upgrade sets it"))?;
    for program in ["virt-launcher", "virt-launcher-monitor"] {
        ensure!(
            directory.join(program).is_file(),
            "{variable}: {} has no {program}",
            directory.display()
        );
    }
    Ok(directory)
}

/// The guest's output of a command.
async fn guest_output(launcher: &LauncherFixture, vmi: &Vmi, command: &str) -> Result<String> {
    let answer = launcher.commands.exec(vmi, "sh", &["-c", command]).await?;
    ensure!(answer.exit_code == 0, "{command}: {answer:?}");
    Ok(answer.std_out.trim().to_owned())
}

async fn count(launcher: &LauncherFixture, vmi: &Vmi) -> Result<u64> {
    let text = guest_output(launcher, vmi, "cat /count").await?;
    text.parse()
        .with_context(|| format!("the guest counts {text:?}"))
}

/// Waits until the guest has counted beyond `last`. Returns how far.
async fn wait_for_higher_count(launcher: &LauncherFixture, vmi: &Vmi, last: u64) -> Result<u64> {
    let deadline = Instant::now() + BOOT_TIMEOUT;
    loop {
        let count = count(launcher, vmi).await?;
        ensure!(
            count >= last,
            "the guest counts {count} after {last}: it was started anew"
        );
        if count > last {
            return Ok(count);
        }
        ensure!(Instant::now() < deadline, "the guest has stopped at {last}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Boots a VM on the source of two pods, and migrates it to the target's launcher, back, and to the target again.
async fn migrate_back_and_forth(prepared: PreparedMigration) -> Result<()> {
    let boot_id = "cat /proc/sys/kernel/random/boot_id";
    let vmi = Vmi::new("upgraded", LauncherUser::Nonroot);
    let mut vm = MigratingVm::boot(prepared, vmi.clone(), &ARGUMENTS).await?;
    guest_output(vm.launcher(), &vmi, COUNT).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let booted = guest_output(vm.launcher(), &vmi, boot_id).await?;
    let mut counted = wait_for_higher_count(vm.launcher(), &vmi, 0).await?;
    for direction in ["to this launcher", "back", "to this launcher again"] {
        (vm, _) = vm.migrate(&stock_options()).await.context(direction)?;
        vm.launcher()
            .wait_for_agent(&vmi)
            .await
            .context(direction)?;
        counted = wait_for_higher_count(vm.launcher(), &vmi, counted)
            .await
            .context(direction)?;
        let runs = guest_output(vm.launcher(), &vmi, boot_id).await?;
        ensure!(runs == booted, "{direction}: the guest was booted anew");
    }
    vm.end().await
}

/// Two pods, each with its `virt-hook` as libvirt's hook, as in an image.
fn prepare(client_of_source: &Path) -> Result<PreparedMigration> {
    let prepared = PreparedMigration::create(LauncherUser::Nonroot)?;
    let own = binary("virt-hook")?;
    for (pod, client) in [
        (&prepared.source.pod, client_of_source),
        (&prepared.target.pod, &own),
    ] {
        pod.install_hook_client_in_image(client)?;
    }
    Ok(prepared)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds another commit, which takes a quarter of an hour: make test-upgrade FROM=COMMIT"]
async fn vm_of_another_commits_launcher_migrates_here_and_back() -> Result<()> {
    let directory = directory("OTHER_LAUNCHER")?;
    let mut prepared = prepare(&directory.join("virt-hook"))?;
    prepared.source.pod.use_launcher_of(&directory);
    migrate_back_and_forth(prepared).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "KubeVirt's launcher comes from its own build: make test-upgrade STOCK_LAUNCHER=DIR"]
async fn vm_of_kubevirts_launcher_migrates_here_and_back() -> Result<()> {
    let mut prepared = prepare(&binary("virt-hook")?)?;
    prepared
        .source
        .pod
        .use_stock_launcher(&directory("STOCK_LAUNCHER")?)?;
    migrate_back_and_forth(prepared).await
}
