//! QEMU in a cgroup that reaches its memory limit, or is frozen.

use anyhow::Result;
use tests::cgroup::{Cgroup, Controller};
use tests::emulated_virt_handler::Phase;
use tests::launcher_fixture::{BOOT_TIMEOUT, EVENT_TIMEOUT, LauncherFixture, PreparedPod};
use tests::not_tested::{Missing, not_tested};
use tests::pod::LauncherUser;
use tests::vmi_builder::Vmi;

/// Less than QEMU needs to go on.
const TOO_LITTLE_MEMORY: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_qemu_that_the_kernel_kills_for_memory_is_told_so() -> Result<()> {
    let Some(cgroup) = Cgroup::create(Controller::Memory, "memory") else {
        let lack = Missing::MachineFeature("a memory cgroup in which this user may make others");
        return not_tested("a QEMU that is killed for memory", lack);
    };
    let vmi = Vmi::new("memorykill", LauncherUser::Nonroot);
    let prepared = PreparedPod::create(LauncherUser::Nonroot)?;
    let pod = &prepared.pod;
    pod.mount_over(cgroup.directory(), cgroup.in_container())?;
    let mut fixture = prepared.start(&vmi, &[]).await?;
    fixture.boot(&vmi).await?;
    let before = fixture.handler.events().len();
    cgroup.limit_memory(TOO_LITTLE_MEMORY)?;
    cgroup.add(&fixture.pod.qemu().unwrap())?;
    fixture
        .handler
        .wait_for_state("Shutoff/Crashed", before, BOOT_TIMEOUT)
        .await?;
    let events = fixture.handler.events();
    let warning = events
        .iter()
        .find(|event| event.kubernetes_reason() == Some("OOMKilled"));
    let warning = warning.unwrap_or_else(|| panic!("{}", fixture.handler.history()));
    let message = format!("{warning:?}");
    assert!(message.contains("its limit of 1048576 bytes"), "{message}");
    fixture.expect_end_in_phase(Phase::Failed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_qemu_that_ends_only_when_it_is_thawed_is_destroyed() -> Result<()> {
    let Some(cgroup) = Cgroup::create(Controller::Freezer, "freezer") else {
        let lack = Missing::MachineFeature("a freezer in which this user may make cgroups");
        return not_tested("a QEMU in a frozen cgroup", lack);
    };
    let vmi = Vmi::new("frozenkill", LauncherUser::Nonroot);
    let mut fixture = LauncherFixture::start(LauncherUser::Nonroot, &vmi).await?;
    fixture.boot(&vmi).await?;
    let before = fixture.handler.events().len();
    cgroup.add(&fixture.pod.qemu().unwrap())?;
    cgroup.freeze()?;
    let killed = fixture.commands.kill(&vmi).await;
    assert!(
        !killed.as_ref().is_ok_and(|answer| answer.success),
        "{killed:?}: QEMU has not ended"
    );
    cgroup.thaw()?;
    fixture
        .handler
        .wait_for_state("Shutoff/Destroyed", before, EVENT_TIMEOUT)
        .await?;
    let states = fixture.handler.states();
    let wrong = states[before..]
        .iter()
        .filter(|state| state.contains("Shutoff") && !state.contains("Shutoff/Destroyed"));
    assert_eq!(wrong.count(), 0, "{states:#?}");
    // Nobody has deleted the VMI.
    fixture.expect_end_in_phase(Phase::Failed).await
}
