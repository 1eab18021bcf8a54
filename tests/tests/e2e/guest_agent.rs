//! A real guest agent: its reports and statistics, and freeze and thaw, also after the daemon was killed. SEV and
//! screenshots are checked on the same VM.

mod freeze_and_thaw;
mod sev_and_screenshot;

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use proto::cmd::v1 as cmd;
use serde_json::{Value, json};
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use freeze_and_thaw::{
    check_freeze_and_thaw, check_safety_thaw_without_daemon, freeze_status, shut_down_frozen_guest,
};
use sev_and_screenshot::{check_screenshot, check_sev_without_hardware};

const CLAIM_DIRECTORY: &str = "/run/kubevirt-private/vmi-disks/data";

fn vmi() -> Vmi {
    let disk =
        json!({ "hostDisk": { "path": format!("{CLAIM_DIRECTORY}/disk.img"), "type": "Disk" } });
    Vmi::new("agent", LauncherUser::Nonroot).volume("data", disk)
}

/// Creates a disk with an ext4 file system, since the guest's initramfs cannot be frozen.
fn make_disk(prepared: &PreparedPod) -> Result<()> {
    let claim = prepared.pod.path(CLAIM_DIRECTORY);
    fs::create_dir_all(&claim)?;
    let disk = claim.join("disk.img");
    File::create(&disk)?.set_len(32 << 20)?;
    let status = Command::new("mkfs.ext4")
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .args(["-q", "-F"])
        .arg(&disk)
        .status()
        .context("mkfs.ext4 (package e2fsprogs)")?;
    ensure!(status.success(), "mkfs.ext4: {status}");
    for path in [&claim, &disk] {
        chown(path, Some(QEMU_UID), Some(QEMU_UID))?;
    }
    Ok(())
}

async fn wait_for_event(
    fixture: &LauncherFixture,
    what: &str,
    from: usize,
    matches: impl Fn(&Event) -> bool,
) -> Result<Event> {
    fixture
        .handler
        .wait_for(what, from, BOOT_TIMEOUT, matches)
        .await
}

async fn guest_info(fixture: &LauncherFixture) -> Result<Value> {
    let mut client = fixture.commands.raw.clone();
    let answer = client
        .get_guest_info(cmd::EmptyRequest {})
        .await?
        .into_inner();
    Ok(serde_json::from_str(&answer.guest_info_response)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guest_agents_reports_freeze_and_statistics() -> Result<()> {
    let vmi = vmi();
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    make_disk(&prepared)?;
    let fixture = prepared.start(&vmi, &["--vm-stats-collector"]).await?;
    fixture.boot_without_controller(&vmi).await?;
    fixture.wait_for_agent(&vmi).await?;
    check_reports(&fixture, &vmi).await?;
    check_statistics(&fixture).await?;
    check_sev_without_hardware(&fixture, &vmi).await?;
    check_screenshot(&fixture, &vmi).await?;
    check_freeze_and_thaw(&fixture, &vmi).await?;
    check_safety_thaw_without_daemon(&fixture, &vmi).await?;
    shut_down_frozen_guest(fixture, &vmi).await
}

/// Restarts the agent, so that the launcher queries everything at once, and checks the reports.
async fn check_reports(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let script = "modprobe ext4; mkdir -p /mnt/data; mount /dev/vda /mnt/data || exit 1
        printf 'NAME=\"Test Guest\"\\nID=test\\nVERSION_ID=1\\n' >/etc/os-release; hostname agent
        (sleep 1; killall qemu-ga) >/dev/null 2>&1 &";
    let answer = fixture.commands.exec(vmi, "sh", &["-c", script]).await?;
    ensure!(answer.exit_code == 0, "{answer:?}");
    let has_os_name = |event: &Event| event.domain()["Status"]["OSInfo"]["Name"] == "Test Guest";
    let event = wait_for_event(fixture, "with the guest's system", 0, has_os_name).await?;
    assert_eq!(freeze_status(&event), "thawed");
    assert_eq!(event.domain()["Status"]["OSInfo"]["Machine"], "x86_64");
    let has_file_system = async || {
        tokio::time::sleep(EVENT_TIMEOUT / 50).await;
        let info = guest_info(fixture).await.ok()?;
        (info["fsInfo"]["disks"][0]["mountPoint"] == "/mnt/data").then_some(info)
    };
    let info = tests::wait_until("the guest's file systems", BOOT_TIMEOUT, has_file_system).await?;
    assert_eq!(info["hostname"], "agent");
    assert_eq!(info["timezone"], "UTC, 0");
    assert_eq!(info["os"]["id"], "test");
    assert_eq!(info["fsFreezeStatus"], "thawed");
    let version = info["guestAgentVersion"].as_str().unwrap_or_default();
    assert!(version.contains('.'), "{version}");
    for command in [
        "guest-ping",
        "guest-get-time",
        "guest-info",
        "guest-shutdown",
        "guest-network-get-interfaces",
        "guest-get-fsinfo",
        "guest-get-host-name",
        "guest-get-users",
        "guest-get-timezone",
        "guest-get-osinfo",
    ] {
        let commands = info["supportedCommands"].as_array().context("commands")?;
        let expected = json!({ "name": command, "enabled": true });
        assert!(commands.contains(&expected), "{command}: {info}");
    }
    let mut client = fixture.commands.raw.clone();
    let filesystems = client
        .get_filesystems(cmd::EmptyRequest {})
        .await?
        .into_inner();
    let filesystems: Value = serde_json::from_str(&filesystems.guest_filesystems_response)?;
    let [file_system] = filesystems.as_array().context("a list")?.as_slice() else {
        anyhow::bail!("{filesystems}");
    };
    assert_eq!(
        (&file_system["diskName"], &file_system["fileSystemType"]),
        (&json!("vda"), &json!("ext4"))
    );
    assert!(
        file_system["totalBytes"].as_i64() > Some(20 << 20) && file_system["usedBytes"].is_i64()
    );
    assert_eq!(file_system["disk"][0]["busType"], "virtio");
    let users = client.get_users(cmd::EmptyRequest {}).await?.into_inner();
    assert_eq!(users.guest_user_list_response, "[]");
    let status = fixture.commands.domain().await?["Status"].clone();
    assert_eq!(status["OSInfo"]["Name"], "Test Guest");
    assert_eq!(status["FSFreezeStatus"]["Status"], "");
    Ok(())
}

async fn check_statistics(fixture: &LauncherFixture) -> Result<()> {
    let mut client = fixture.commands.raw.clone();
    let empty = cmd::EmptyRequest {};
    let rate = client
        .get_domain_dirty_rate_stats(empty)
        .await?
        .into_inner();
    let response = rate.response.context("a response")?;
    ensure!(response.success, "the first measurement: {response:?}");
    let request = cmd::VmStatsRequest {
        domain_stats: Some(cmd::DomainStatsRequest {}),
        dirty_rate: Some(cmd::DirtyRateRequest {}),
        guest_get_cpu_stats: Some(cmd::AgentCpuStatsRequest {}),
        guest_get_host_name: Some(cmd::AgentHostNameRequest {}),
        ..cmd::VmStatsRequest::default()
    };
    let stats = client.get_vm_stats(request).await?.into_inner();
    let response = stats.response.context("a response")?;
    ensure!(response.success, "{response:?}");
    let cpus = stats.guest_get_cpu_stats.context("processors")?;
    let cpus: Value = serde_json::from_str(&cpus.message)?;
    assert_eq!(cpus["return"][0]["type"], "linux");
    let name = stats.guest_get_host_name.context("a name")?;
    assert_eq!(name.message, r#"{"return":{"host-name":"agent"}}"#);
    let version = stats.guest_agent_version.context("a version")?;
    assert!(version.success && !version.message.is_empty());
    Ok(())
}
