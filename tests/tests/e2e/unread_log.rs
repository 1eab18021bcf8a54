//! A log pipe that nobody reads, as that of a stalled container runtime.

use std::io::Read;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use serde_json::json;
use tests::launcher_fixture::{EVENT_TIMEOUT, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Each logs some 400 bytes; the pipe takes 64 KiB.
const REFUSED_SYNCS: usize = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_that_nobody_reads_stops_nothing() -> Result<()> {
    let vmi = Vmi::new("unread", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let mut log = prepared.pod.log_to_pipe()?;
    let mut fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot_without_controller(&vmi).await?;
    for number in 0..REFUSED_SYNCS {
        let invalid = vmi.clone().edit(|vmi| {
            let name = format!("volume{number}");
            vmi["spec"]["volumes"] = json!([{"name": name, "nonsense": {}}]);
            vmi["spec"]["domain"]["devices"]["disks"] =
                json!([{"name": name, "disk": {"bus": "virtio"}}]);
        });
        let answer = fixture.commands.sync(&invalid).await?;
        assert!(!answer.success, "{answer:?}");
    }
    let before = fixture.handler.events().len();
    fixture.commands.pause(&vmi).await?.accepted()?;
    let handler = &fixture.handler;
    handler
        .wait_for_state("Paused/User", before, EVENT_TIMEOUT)
        .await?;
    fixture.commands.domain().await?;
    fixture.pod.qemu().expect("QEMU runs").kill()?;
    handler
        .wait_for_state("Shutoff/Crashed", before, EVENT_TIMEOUT)
        .await?;
    fixture.pod.signal(Signal::TERM)?;
    fixture.pod.wait_for_exit(Duration::from_secs(30)).await?;
    let mut text = String::new();
    log.read_to_string(&mut text)?;
    assert!(
        text.len() >= 60 << 10,
        "the pipe was not full: {}",
        text.len()
    );
    Ok(())
}
