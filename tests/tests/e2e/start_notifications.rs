//! The notifications of a VM's start.

use anyhow::Result;
use tests::binaries::binary;
use tests::emulated_virt_handler::Event;
use tests::launcher_fixture::{EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// The notifications of a start: defined without metadata, defined with metadata, starting up, running.
const START_NOTIFICATIONS: [&str; 4] = [
    "ADDED Shutoff/Unknown",
    "MODIFIED Shutoff/Unknown",
    "MODIFIED Paused/StartingUp",
    "MODIFIED Running/Unknown",
];

/// Checks that the notifications are those of a start, possibly followed by others of the running VM.
pub(crate) fn assert_started(fixture: &LauncherFixture) {
    let states = fixture.handler.states();
    let history = fixture.handler.history();
    let (start, rest) = states.split_at(START_NOTIFICATIONS.len().min(states.len()));
    assert_eq!(start, START_NOTIFICATIONS, "{history}");
    assert!(
        rest.iter().all(|state| state == START_NOTIFICATIONS[3]),
        "{history}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_tells_that_kubevirt_is_newer_than_what_the_launcher_knows() -> Result<()> {
    const REASON: &str = "KubeVirtVersionUncertain";
    let vmi = Vmi::new("newer", LauncherUser::Nonroot);
    let mut prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    prepared
        .pod
        .set_env("VIRT_LAUNCHER_KUBEVIRT_VERSION", "v1.99.0");
    prepared.pod.install_libvirt_hook()?;
    prepared
        .pod
        .install_hook_client_in_image(&binary("virt-hook")?)?;
    let fixture = prepared.start(&vmi, &[]).await?;
    let is_told = |event: &Event| event.kubernetes_reason() == Some(REASON);
    fixture
        .handler
        .wait_for(REASON, 0, EVENT_TIMEOUT, is_told)
        .await?;
    Ok(())
}
