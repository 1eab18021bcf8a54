//! A VMI with `startStrategy: Paused` boots paused.

use anyhow::Result;
use tests::emulated_virt_handler::{Event, Phase};
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vmi_with_start_strategy_paused_boots_paused() -> Result<()> {
    let vmi = Vmi::new("paused", LauncherUser::Nonroot)
        .edit(|vmi| vmi["spec"]["startStrategy"] = "Paused".into());
    let fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.handler.create(&vmi).await;
    let paused = |event: &Event| event.state().starts_with("Paused/");
    fixture
        .handler
        .wait_for("Paused", 0, BOOT_TIMEOUT, paused)
        .await?;
    assert!(
        !fixture
            .handler
            .states()
            .contains(&"MODIFIED Running/Unknown".to_owned()),
        "{}",
        fixture.handler.history()
    );
    assert_eq!(fixture.pod.console(&vmi).text(), "");
    fixture
        .handler
        .wait_for_phase(Phase::Running, BOOT_TIMEOUT)
        .await?;
    fixture.commands.unpause(&vmi).await?.accepted()?;
    fixture
        .handler
        .wait_for_state("Running/Unknown", 0, EVENT_TIMEOUT)
        .await?;
    fixture.end_vm(&vmi).await
}
