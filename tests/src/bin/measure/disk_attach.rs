//! Measures the attach of a disk, from the request to the notification of virt-handler.

use std::fs;
use std::os::unix::fs::chown;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture};
use tests::pod::{LauncherUser, QEMU_UID};
use tests::vmi_builder::Vmi;

use crate::measured_launcher::MeasuredLauncher;
use crate::median;

/// The number of attaches per median.
const ATTACHES: usize = 9;

/// Boots a VM, and attaches and detaches a disk on its SCSI bus. Returns the median time of an attach in milliseconds.
pub(crate) async fn measure(program: &MeasuredLauncher) -> Result<f64> {
    let plain = Vmi::new("attach", LauncherUser::Nonroot)
        .empty_disk("empty", "16Mi")
        .edit(|vmi| {
            vmi["status"]["volumeStatus"] = json!([{ "name": "empty", "target": "vda" }]);
        });
    let with_disk = with_disk(&plain);
    let fixture = program.pod()?.start(&plain, &[]).await?;
    fixture.boot_without_controller(&plain).await?;
    fixture.wait_for_agent(&plain).await?;
    let image = fixture.pod.path("/var/run/kubevirt/hotplug-disks/hot.img");
    fs::File::create(&image)?.set_len(8 << 20)?;
    chown(image, Some(QEMU_UID), Some(QEMU_UID))?;
    let mut times = Vec::new();
    for _ in 0..ATTACHES {
        let first_event = fixture.handler.events().len();
        let begin = fixture.handler.now();
        fixture.commands.sync(&with_disk).await?.accepted()?;
        let notified = wait_for_notification(&fixture, first_event, true).await?;
        times.push(notified.saturating_sub(begin).as_secs_f64() * 1000.0);
        let first_event = fixture.handler.events().len();
        fixture.commands.sync(&plain).await?.accepted()?;
        wait_for_notification(&fixture, first_event, false).await?;
    }
    fixture.commands.kill(&plain).await?.accepted()?;
    Ok(median(times))
}

fn with_disk(plain: &Vmi) -> Vmi {
    let claim = json!({ "persistentVolumeClaim": { "claimName": "hot", "hotpluggable": true } });
    plain.clone().volume("hot", claim).edit(|vmi| {
        vmi["spec"]["domain"]["devices"]["disks"][1]["disk"]["bus"] = json!("scsi");
        let status = json!({ "name": "hot", "target": "", "phase": "MountedToPod",
            "hotplugVolume": { "attachPodName": "hp", "attachPodUID": "1" } });
        if let Some(all) = vmi["status"]["volumeStatus"].as_array_mut() {
            all.push(status);
        }
    })
}

/// Waits for a notification of a domain that has the disk (`attached`) or lacks it, from event number `first_event` on.
/// Returns the time at which the notification arrived.
async fn wait_for_notification(
    fixture: &LauncherFixture,
    first_event: usize,
    attached: bool,
) -> Result<Duration> {
    let begin = Instant::now();
    loop {
        let events = fixture.handler.events();
        let mut new_events = events.iter().skip(first_event);
        let notified =
            new_events.find(|event| !event.event_type().is_empty() && has_disk(event) == attached);
        if let Some(event) = notified {
            return Ok(event.at);
        }
        ensure!(
            begin.elapsed() < EVENT_TIMEOUT,
            "{}",
            fixture.handler.history()
        );
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}

fn has_disk(event: &Event) -> bool {
    let disks = event.domain()["Spec"]["Devices"]["Disks"].as_array();
    let name = |disk: &Value| disk["Alias"]["Name"].as_str().map(str::to_owned);
    let mut names = disks.into_iter().flatten().filter_map(name);
    names.any(|name| name == "hot")
}
