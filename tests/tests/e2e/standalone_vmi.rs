//! `STANDALONE_VMI`: a launcher starts a VM without virt-handler.

use anyhow::Result;
use rustix::process::Signal;
use tests::launcher_fixture::{BOOT_TIMEOUT, PreparedPod, READY_TIMEOUT};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_vmi_boots_and_shuts_down_on_sigterm() -> Result<()> {
    let vmi = Vmi::new("standalone", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared
        .pod
        .set_env("STANDALONE_VMI", &String::from_utf8(vmi.json())?);
    let mut fixture = prepared.start(&vmi, &[]).await?;
    fixture
        .pod
        .console(&vmi)
        .wait_for_boots(1, BOOT_TIMEOUT)
        .await?;
    fixture.pod.signal(Signal::TERM)?;
    fixture.expect_exit_code(0).await?;
    assert!(
        fixture.pod.console(&vmi).has_reported("powering off"),
        "{}",
        fixture.pod.console(&vmi).text()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_standalone_vmi_ends_the_launcher_with_an_error() -> Result<()> {
    let vmi = Vmi::new("refused", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared
        .pod
        .set_env("STANDALONE_VMI", "kind: Pod\nthis: is not a VMI\n");
    prepared.pod.start(&vmi, &[])?;
    let status = prepared.pod.wait_for_exit(READY_TIMEOUT).await?;
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    Ok(())
}
