//! The end of a migration to this pod.
//!
//! The observer moves the [`IncomingStage`], from libvirt's events. The task records the end, which virt-handler takes for
//! the migration's success: libvirt's job may outlast the guest's first instruction here, and until it has ended the
//! source can still take the VM back.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{DomainState, JobOperation, JobType, Reason, State, XmlKind, code};
use tokio::time::Instant;

use super::incoming_stage::IncomingStage;
use super::kubevirt_metadata::now;
use super::vm_context::VmContext;
use super::vm_state::Role;
use crate::libvirt_client::{COMMAND, CallError, QUICK};
use crate::vm_events::VmEvent;

/// The interval of polling the job, which libvirt answers without QEMU.
const JOB_POLL: Duration = Duration::from_millis(25);
/// After libvirt has reported for this long that the job runs, the migration counts as ended, as with KubeVirt's launcher.
const JOB_TIMEOUT: Duration = Duration::from_secs(18);

/// Records the end of each migration to this pod, as long as the launcher lives.
pub(super) async fn run(vm: Arc<VmContext>) {
    let mut stage = vm.incoming_migration.subscribe();
    while stage
        .wait_for(|stage| *stage == IncomingStage::Running)
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
                () = stopped(stage_receiver) => {}
            }
        }
        if stage
            .wait_for(|stage| *stage != IncomingStage::Running)
            .await
            .is_err()
        {
            return;
        }
    }
}

async fn stopped(mut stage: tokio::sync::watch::Receiver<IncomingStage>) {
    // Cannot fail: the VM holds the sender.
    let _ = stage
        .wait_for(|stage| *stage != IncomingStage::Running)
        .await;
}

/// How long libvirt has reported that the job of the migration runs. Pure. While there is no answer, the source may still take
/// the VM back, and no time passes.
#[derive(Debug, Default)]
struct RunningJob(Duration);

impl RunningJob {
    /// Whether the migration counts as ended after this answer, `None` if there was none, and the time that it took.
    fn ends(&mut self, is_over: Option<bool>, took: Duration) -> bool {
        if is_over == Some(false) {
            self.0 += took;
        }
        is_over == Some(true) || self.0 >= JOB_TIMEOUT
    }
}

/// Waits until libvirt has no job of the migration.
async fn job_ended(vm: &VmContext) {
    let mut job = RunningJob::default();
    let mut asked = Instant::now();
    loop {
        let is_over = is_job_over(vm).await.unwrap_or_else(|error| {
            tracing::debug!(reason = %error, "asking for the migration's job");
            None
        });
        if job.ends(is_over, asked.elapsed()) {
            break;
        }
        asked = Instant::now();
        tokio::time::sleep(JOB_POLL).await;
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
            let over =
                stats.job_type == JobType::None || stats.operation != JobOperation::MigrationIn;
            Ok(Some(over))
        }
        // libvirt tells nothing of an incoming migration.
        Err(CallError::Libvirt(error)) if error.code == code::OPERATION_INVALID => Ok(Some(false)),
        Err(error) => Err(error),
    }
}

/// libvirt has defined the domain as the source described it: what hooks changed is changed there too. A definition that
/// cannot be changed stays; the running domain has the changes.
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
    let Some(xml) = vm.last_edit.apply_to(&definition.map_err(text)?)? else {
        return Ok(());
    };
    // Fails only when the observer is gone.
    let _ = vm.events.send(VmEvent::Redefining);
    let what = "defining the VM that has arrived";
    let defined = vm
        .client
        .libvirt(what, COMMAND, move |hypervisor| hypervisor.define(&xml));
    defined.await.map(drop).map_err(|error| {
        let _ = vm.events.send(VmEvent::NotRedefined);
        text(error)
    })
}

/// Whether the guest has arrived paused; `None` if libvirt does not answer. The guest's owner may have paused or unpaused it
/// on the source after this pod was prepared. A guest that was paused before libvirt's migration arrives so.
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
        // Before the record, after which virt-handler sends commands.
        let mut state = vm.driver_state();
        // virt-handler may have paused the guest since it runs here.
        state.paused_by_user |= is_paused.unwrap_or(state.paused_on_source);
        state.role = Role::Boot;
        state.given_up = false;
        state.defined = true;
    }
    // After the role, which a preparation that is still under way looks at.
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
    fn migration_does_not_end_before_libvirt_answers() {
        let mut job = RunningJob::default();
        assert!((0..20).all(|_| !job.ends(None, SECOND)));
        assert!(!job.ends(Some(false), SECOND));
        assert!(job.ends(Some(true), SECOND));
    }

    #[test]
    fn job_that_libvirt_never_ends_counts_as_ended() {
        let mut job = RunningJob::default();
        assert!((1..18).all(|_| !job.ends(Some(false), SECOND)));
        assert!(job.ends(Some(false), SECOND));
    }
}
