//! The state of UEFI and TPM is in the directories for which KubeVirt mounts a volume that outlives the pod.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tests::launcher_fixture::{BOOT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

fn vmi(user: LauncherUser) -> Vmi {
    Vmi::new("stateful", user).edit(|vmi| {
        let domain = &mut vmi["spec"]["domain"];
        domain["firmware"]["bootloader"] =
            json!({ "efi": { "secureBoot": false, "persistent": true } });
        domain["devices"]["tpm"] = json!({ "persistent": true });
    })
}

/// Boots a VM, and checks that its UEFI and TPM state is in these directories.
async fn boot_and_check(user: LauncherUser, libvirt: &str, tpm: &str) -> Result<()> {
    let vmi = vmi(user);
    // Debian's package ovmf, which scripts/setup installs. Its firmware with secure boot would not boot this VM.
    let firmware = ["--ovmf-path", "/usr/share/OVMF"];
    let fixture = PreparedPod::create(user)?.start(&vmi, &firmware).await?;
    fixture.boot(&vmi).await?;
    // Emulated UEFI takes ten seconds on an idle machine.
    fixture
        .pod
        .console(&vmi)
        .wait_for_boots(1, BOOT_TIMEOUT * 3)
        .await?;
    let variables = fixture.pod.path(libvirt).join("nvram/stateful_VARS.fd");
    let metadata = fs::metadata(&variables).with_context(|| format!("{}", variables.display()))?;
    ensure!(metadata.len() > 0);
    let state = fixture.pod.path(tpm);
    wait_for_state(&fixture, &state).await?;
    fixture.end_vm(&vmi).await
}

async fn wait_for_state(fixture: &LauncherFixture, directory: &Path) -> Result<()> {
    let has_state = async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        files(directory)
            .contains(&"tpm2-00.permall".to_owned())
            .then_some(())
    };
    let what = format!(
        "a TPM's state in {}\n{}",
        directory.display(),
        fixture.pod.log()
    );
    tests::wait_until(&what, BOOT_TIMEOUT, has_state).await
}

/// The names of all files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files(&path),
            _ => vec![entry.file_name().to_string_lossy().into_owned()],
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uefi_and_tpm_state_are_in_kubevirts_directories() -> Result<()> {
    let libvirt = "/run/kubevirt-private/libvirt/qemu";
    boot_and_check(LauncherUser::Nonroot, libvirt, &format!("{libvirt}/swtpm")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uefi_and_tpm_state_are_in_kubevirts_directories_as_root() -> Result<()> {
    boot_and_check(
        LauncherUser::Root,
        "/var/lib/libvirt/qemu",
        "/var/lib/libvirt/swtpm",
    )
    .await
}
