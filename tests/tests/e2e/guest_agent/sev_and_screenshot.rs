//! SEV without its hardware, and screenshots of the running and the paused guest.

use anyhow::{Context, Result};
use proto::cmd::v1 as cmd;
use tests::launcher_fixture::LauncherFixture;
use tests::vmi_builder::Vmi;

/// Without SEV hardware, the answer is libvirt's error.
pub(super) async fn check_sev_without_hardware(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let mut client = fixture.commands.raw.clone();
    let info = client
        .get_sev_info(cmd::EmptyRequest {})
        .await?
        .into_inner();
    let response = info.response.context("a response")?;
    assert!(response.message.contains("Code=84"), "{response:?}");
    let answer = client
        .get_launch_measurement(vmi.request())
        .await?
        .into_inner();
    let response = answer.response.context("a response")?;
    assert!(response.message.contains("no SEV"), "{response:?}");
    Ok(())
}

pub(super) async fn check_screenshot(fixture: &LauncherFixture, vmi: &Vmi) -> Result<()> {
    let mut client = fixture.commands.raw.clone();
    let picture = client.get_screenshot(vmi.request()).await?.into_inner();
    assert_eq!(picture.mime, "image/png");
    assert!(picture.data.starts_with(b"\x89PNG"));
    fixture.commands.pause(vmi).await?.accepted()?;
    let paused = client.get_screenshot(vmi.request()).await?.into_inner();
    assert!(paused.data.starts_with(b"\x89PNG"));
    fixture.commands.unpause(vmi).await?.accepted()?;
    Ok(())
}
