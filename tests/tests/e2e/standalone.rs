//! `STANDALONE_VMI`: a launcher that nobody commands.

use anyhow::Result;
use rustix::process::Signal;
use tests::pod::User;
use tests::scenario::{BOOT, READY, Stage};
use tests::vmi::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn boots_by_itself_and_ends_well_on_sigterm() -> Result<()> {
    let vmi = Vmi::new("standalone", User::Nonroot);
    let mut stage = Stage::set(User::Nonroot)?;
    stage
        .pod
        .set_env("STANDALONE_VMI", &String::from_utf8(vmi.json())?);
    let mut scene = stage.start(&vmi, &[]).await?;
    scene.pod.console(&vmi).ready(1, BOOT).await?;
    scene.pod.signal(Signal::TERM)?;
    scene.ends_with(0).await?;
    assert!(
        scene.pod.console(&vmi).told("powering off"),
        "{}",
        scene.pod.console(&vmi).text()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vmi_that_cannot_be_run_ends_the_launcher_with_an_error() -> Result<()> {
    let vmi = Vmi::new("refused", User::Nonroot);
    let mut stage = Stage::set(User::Nonroot)?;
    stage
        .pod
        .set_env("STANDALONE_VMI", "kind: Pod\nthis: is no VMI\n");
    stage.pod.start(&vmi, &[])?;
    let status = stage.pod.ended(READY).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    Ok(())
}
