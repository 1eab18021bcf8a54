//! A hook waits for a fact about the pod that is published during the boot, and passes it to the guest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;
use tests::build_and_install_hooks as hooks;
use tests::launcher_fixture::{BOOT_TIMEOUT, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

const STANDING_HOOKS: &str = "/run/standing-hooks";
const POD_INFO: &str = "/run/pod-info";
const POLICY_PATH: &str = "/run/hook-policy.yaml";
/// Multus' annotation as the kubelet writes it to a downward API volume.
const NETWORK_STATUS_LINE: &str = r#"k8s.v1.cni.cncf.io/network-status="[{\"name\": \"default/lab\",\n  \"ips\": [\"192.0.2.10\"], \"mac\": \"02:00:00:00:00:01\"}]""#;

/// Replaces the files of the downward API volume, as the kubelet does.
fn publish(volume: &Path, version: &str, annotations: &str) -> Result<()> {
    let data = volume.join(version);
    fs::create_dir_all(&data)?;
    fs::write(data.join("annotations"), annotations)?;
    symlink(version, volume.join("..data_tmp"))?;
    fs::rename(volume.join("..data_tmp"), volume.join("..data"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_that_the_pod_gets_during_the_boot_reach_the_guest() -> Result<()> {
    let source = json!({ "userData": "#cloud-config\n", "networkData": "version: 2\n" });
    let vmi = Vmi::new("addressed", LauncherUser::Nonroot)
        .volume("cloudinit", json!({ "cloudInitNoCloud": source }))
        .edit(|vmi| {
            vmi["spec"]["networks"] =
                json!([{ "name": "lab", "multus": { "networkName": "lab" } }]);
        });
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let module = hooks::example("static-addresses-hook")?;
    hooks::install(
        &prepared.pod.path(STANDING_HOOKS),
        "static-addresses",
        &module,
    )?;
    let policy = "allow: {pod: ['network-status/*']}\n";
    fs::write(prepared.pod.path(POLICY_PATH), policy)?;
    let volume = prepared.pod.path(POD_INFO);
    publish(&volume, "..1", "example.com/early=\"\"")?;
    symlink("..data/annotations", volume.join("annotations"))?;
    let arguments = [
        "--standing-hooks-dir",
        STANDING_HOOKS,
        "--hook-policy",
        POLICY_PATH,
        "--pod-info-dir",
        POD_INFO,
        "--pod-info-wait",
        "100s",
        "--hook-chain-deadline",
        "100s",
    ];
    let fixture = prepared.start(&vmi, &arguments).await?;
    let publish_late = async {
        let is_waiting = async || {
            let entries = fixture.pod.log_entries();
            let is_network_status =
                |entry: &serde_json::Value| entry["fact"] == "network-status/default/lab";
            entries.iter().any(is_network_status).then_some(())
        };
        tests::wait_until("the hook to wait for its network", BOOT_TIMEOUT, is_waiting).await?;
        publish(&volume, "..2", NETWORK_STATUS_LINE)
    };
    let (reports, published) = tokio::join!(fixture.boot_and_read_reports(&vmi), publish_late);
    published?;
    let reports = reports?;
    for part in ["macaddress: \"02:00:00:00:00:01\"", "- \"192.0.2.10/24\""] {
        let has_part =
            |report: &String| report.starts_with("network-data:") && report.contains(part);
        ensure!(reports.iter().any(has_part), "no {part}: {reports:#?}");
    }
    fixture.end_vm(&vmi).await
}
