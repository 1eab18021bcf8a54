//! The task that records the end of a migration to this pod.
//!
//! The observer updates the [`IncomingMigrationStage`] from libvirt's events. virt-handler takes the recorded end for
//! the success of the migration, so it is recorded only after libvirt's job has ended: the guest may run here before
//! that, and the source can still take the VM back.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DomainState, JobOperation, JobType, Reason, State, XmlKind, code};
use tokio::time::Instant;

use super::incoming_migration::IncomingMigrationStage;
use super::kubevirt_metadata::now;
use super::vm_context::VmContext;
use super::vm_phase::Role;
use crate::libvirt_client::{COMMAND, CallError, QUICK};
use crate::vm_events::VmEvent;

/// How often libvirt is asked for the job, which it answers without asking QEMU.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// If libvirt reports the job as running for this long, the migration counts as ended, as with KubeVirt's launcher.
const JOB_TIMEOUT: Duration = Duration::from_secs(18);

/// Records the end of each migration to this pod, as long as the launcher lives.
pub(super) async fn run(vm: Arc<VmContext>) {
    let mut stage = vm.incoming_migration.subscribe();
    while stage
        .wait_for(|stage| *stage == IncomingMigrationStage::Running)
        .await
        .is_ok()
    {
        if vm.driver_state().role == Role::Target {
            let job_ended = job_ended(&vm);
            let stage_receiver = vm.incoming_migration.subscribe();
            tokio::select! {
                () = job_ended => {
                    redefine(&vm).await;
                    finish(&vm).await;
                }
                () = guest_stopped(stage_receiver) => {}
            }
        }
        if stage
            .wait_for(|stage| *stage != IncomingMigrationStage::Running)
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Waits until the guest no longer runs here.
async fn guest_stopped(mut stage: tokio::sync::watch::Receiver<IncomingMigrationStage>) {
    // Cannot fail: the VM holds the sender.
    let _ = stage
        .wait_for(|stage| *stage != IncomingMigrationStage::Running)
        .await;
}

/// How long libvirt has reported the job of the migration as running. Pure. Time without an answer does not count,
/// because the source may still take the VM back.
#[derive(Debug, Default)]
struct JobRunTime(Duration);

impl JobRunTime {
    /// Whether the migration counts as ended. `is_over` is libvirt's answer, `None` if there was none; `took` is the
    /// time since the previous answer.
    fn counts_as_ended(&mut self, is_over: Option<bool>, took: Duration) -> bool {
        if is_over == Some(false) {
            self.0 += took;
        }
        is_over == Some(true) || self.0 >= JOB_TIMEOUT
    }
}

/// Waits until libvirt's job of the migration has ended, or counts as ended.
async fn job_ended(vm: &VmContext) {
    let mut job = JobRunTime::default();
    let mut asked_at = Instant::now();
    loop {
        let is_over = is_job_over(vm).await.unwrap_or_else(|error| {
            tracing::debug!(reason = %error, "asking for the migration's job");
            None
        });
        if job.counts_as_ended(is_over, asked_at.elapsed()) {
            break;
        }
        asked_at = Instant::now();
        tokio::time::sleep(JOB_POLL_INTERVAL).await;
    }
    if job.0 >= JOB_TIMEOUT {
        tracing::warn!("libvirt reports no end of the migration's job within {JOB_TIMEOUT:?}");
    }
}

/// Whether libvirt's job of the migration has ended; `None` if there is no domain.
async fn is_job_over(vm: &VmContext) -> Result<Option<bool>, CallError> {
    let Some(domain) = vm.client.lookup().await? else {
        return Ok(None);
    };
    let what = "asking for the migration's job";
    let stats = vm
        .client
        .on(&domain, what, QUICK, |domain| domain.job_stats());
    match stats.await {
        Ok(stats) => {
            let is_over =
                stats.job_type == JobType::None || stats.operation != JobOperation::MigrationIn;
            Ok(Some(is_over))
        }
        // libvirt has no statistics of an incoming migration while it runs.
        Err(CallError::Libvirt(error)) if error.code == code::OPERATION_INVALID => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

/// Applies the hooks' changes also to the definition, which libvirt has taken from the source. If that fails, the
/// definition stays as it is; the running domain has the changes.
async fn redefine(vm: &VmContext) {
    if let Err(reason) = try_redefine(vm).await {
        tracing::warn!(
            reason,
            "the definition of the VM that has arrived stays the source's"
        );
    }
}

async fn try_redefine(vm: &VmContext) -> Result<(), String> {
    let text = |error: CallError| error.to_string();
    let Some(domain) = vm.client.lookup().await.map_err(text)? else {
        return Ok(());
    };
    let definition = vm.client.xml(&domain, XmlKind::Inactive).await;
    let Some(xml) = vm.last_incoming_edit.apply_to(&definition.map_err(text)?)? else {
        return Ok(());
    };
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::RedefinitionBegins);
    let what = "defining the VM that has arrived";
    let defined = vm
        .client
        .libvirt(what, COMMAND, move |hypervisor| hypervisor.define(&xml));
    defined.await.map(drop).map_err(|error| {
        let _ = vm.events.send(VmEvent::RedefinitionFailed);
        text(error)
    })
}

/// Whether the guest has arrived paused by its owner, who may have paused or unpaused it on the source after this pod
/// was prepared; a guest that was paused before libvirt's migration arrives paused. `None` if libvirt does not answer.
async fn is_paused_by_owner(vm: &VmContext) -> Option<bool> {
    let paused = State::new(DomainState::Paused, Reason::User);
    match vm.client.lookup_with_state().await {
        Ok(domain) => Some(domain.is_some_and(|(_, state)| state == paused)),
        Err(error) => {
            tracing::warn!(reason = %error, "asking whether the guest has arrived paused");
            None
        }
    }
}

async fn finish(vm: &VmContext) {
    let uid = vm
        .metadata
        .current()
        .migration
        .map(|record| record.uid)
        .unwrap_or_default();
    let is_paused = is_paused_by_owner(vm).await;
    {
        // Before the end is recorded, after which virt-handler sends commands.
        let mut state = vm.driver_state();
        // virt-handler may have paused the guest here after its arrival.
        state.paused_by_user |= is_paused.unwrap_or(state.paused_on_source);
        state.role = Role::NoMigration;
        state.migration_given_up = false;
        state.defined = true;
    }
    // After the role is set: a preparation that is still running checks the role.
    vm.close_target_sockets().await;
    vm.metadata.change_migration(&uid, |record| {
        record.end_timestamp.get_or_insert_with(now);
    });
    tracing::info!(migration = uid, "the migration has arrived");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn migration_has_not_ended_while_libvirt_gives_no_answer() {
        let mut job = JobRunTime::default();
        assert!((0..20).all(|_| !job.counts_as_ended(None, SECOND)));
        assert!(!job.counts_as_ended(Some(false), SECOND));
        assert!(job.counts_as_ended(Some(true), SECOND));
    }

    #[test]
    fn job_that_runs_until_the_timeout_counts_as_ended() {
        let mut job = JobRunTime::default();
        assert!((1..18).all(|_| !job.counts_as_ended(Some(false), SECOND)));
        assert!(job.counts_as_ended(Some(false), SECOND));
    }
}
