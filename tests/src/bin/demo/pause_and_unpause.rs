//! Pauses and unpauses the VM of a scenario.

use anyhow::Result;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture};
use tests::vmi_builder::Vmi;

use crate::demo_checks::Checks;
use crate::timeline::Timeline;

/// Pauses and unpauses the VM, and checks the answers and notifications.
pub(crate) async fn pause_and_unpause(
    timeline: &Timeline,
    checks: &mut Checks,
    fixture: &LauncherFixture,
    vmi: &Vmi,
) -> Result<()> {
    let (commands, handler) = (&fixture.commands, &fixture.handler);
    for (what, state) in [("pause", "Paused/User"), ("unpause", "Running/Unknown")] {
        let before = handler.events().len();
        timeline.print("virt-handler", what);
        let answer = if what == "pause" {
            commands.pause(vmi).await?
        } else {
            commands.unpause(vmi).await?
        };
        checks.check(&format!("{what} succeeds"), answer.success, || {
            answer.message.clone()
        });
        checks.succeed(
            &format!("and is reported as {state}"),
            handler.wait_for_state(state, before, EVENT_TIMEOUT).await,
        );
    }
    Ok(())
}
