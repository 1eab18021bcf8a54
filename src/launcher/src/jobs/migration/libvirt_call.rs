//! The migrate call of libvirt: its parameters, the thread that waits for it, and requests to libvirt while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use domain::migration::{
    DestinationEdits, MigrationXmlError, TargetProcessors, destination_xml, migrated_volume_disks,
};
use domain_xml::Document;
use libvirt::{Domain, DomainState, JobStats, JobType, MigrationRequest, State, XmlKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::libvirt_parameters;
use super::migration_request::MigrationJob;
use super::monitor::Action;
use super::sriov_interfaces::{self, DetachedDevices};
use crate::jobs::{JobContext, JobError, domain_call};

/// Queries, and requests that QEMU answers at once.
const QUICK: Duration = Duration::from_secs(10);
/// KubeVirt's deadline for an abort.
const ABORT: Duration = Duration::from_secs(30);
/// libvirt knows of no job for a moment after the call.
const ABORT_RETRY: Duration = Duration::from_millis(20);

/// The end of libvirt's call.
pub(super) type MigrateResult = oneshot::Receiver<libvirt::Result<()>>;

/// A call that is ready to be made.
pub(super) struct PreparedCall {
    destination: String,
    request: MigrationRequest,
    /// The guest was paused, and stays so on the target.
    pub(super) is_paused: bool,
}

/// Detaches what cannot migrate, and describes the domain to the target.
pub(super) async fn prepare(
    context: &JobContext,
    job: &MigrationJob,
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<PreparedCall, JobError> {
    let environment = &context.migration;
    let processors = match environment.names_for_target {
        true => TargetProcessors::of(job.vmi(), &environment.facts)?,
        false => None,
    };
    let is_paused = state(domain).await?.state == DomainState::Paused;
    sriov_interfaces::detach(domain, detached).await?;
    let read = |domain: &dyn Domain| domain.xml(XmlKind::Migratable);
    let xml = domain_call(domain, "reading the domain's migratable XML", QUICK, read).await?;
    let document = Document::parse(&xml)
        .map_err(|error| JobError::from(MigrationXmlError::Domain(error.into())))?;
    let edits = DestinationEdits {
        processors,
        names_files: environment.names_for_target,
        disk_sizes: disk_sizes(job, domain, &document).await?,
    };
    let xml = destination_xml(xml, job.vmi(), &edits)?;
    Ok(PreparedCall {
        destination: libvirt_parameters::destination(job, &environment.share),
        request: libvirt_parameters::request(job, &environment.share, &document, xml, is_paused),
        is_paused,
    })
}

/// The virtual sizes of the disks of migrated volumes, by volume.
async fn disk_sizes(
    job: &MigrationJob,
    domain: &Arc<dyn Domain>,
    document: &Document,
) -> Result<BTreeMap<String, u64>, JobError> {
    let disks = migrated_volume_disks(job.vmi(), document);
    if disks.is_empty() {
        return Ok(BTreeMap::new());
    }
    let read = |domain: &dyn Domain| domain.block_infos();
    let infos = domain_call(domain, "asking for the sizes of the disks", QUICK, read).await?;
    let sizes = disks.into_iter().filter_map(|(volume, path)| {
        let info = infos.get(&path)?;
        Some((volume, info.capacity))
    });
    Ok(sizes.collect())
}

/// Makes the call on a thread of its own: it may take hours, and the pool's threads are for short calls.
pub(super) fn send(
    domain: &Arc<dyn Domain>,
    call: PreparedCall,
) -> Result<MigrateResult, JobError> {
    let (done, migrated) = oneshot::channel();
    let domain = Arc::clone(domain);
    let PreparedCall {
        destination,
        request,
        ..
    } = call;
    tracing::info!(
        destination,
        flags = request.flags.bits(),
        disks = ?request.disks,
        "migrating the virtual machine"
    );
    thread::Builder::new()
        .name("migration".into())
        .spawn(move || drop(done.send(domain.migrate(&destination, &request))))
        .map_err(|_| JobError::Fault)?;
    Ok(migrated)
}

/// The domain's state.
pub(super) async fn state(domain: &Arc<dyn Domain>) -> Result<State, JobError> {
    let what = "asking for the domain's state";
    domain_call(domain, what, QUICK, |domain| domain.state()).await
}

/// The statistics of the running job; `None` if libvirt does not tell them.
pub(super) async fn stats(domain: &Arc<dyn Domain>) -> Option<JobStats> {
    let stats = domain_call(
        domain,
        "asking for the migration's progress",
        QUICK,
        |domain| domain.job_stats(),
    );
    match stats.await {
        Ok(stats) => (stats.job_type == JobType::Unbounded).then_some(stats),
        Err(error) => {
            tracing::debug!(reason = %error, "no progress of the migration is known");
            None
        }
    }
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionResult {
    /// libvirt has done it; an abort is accepted.
    Out,
    /// libvirt refused.
    Refused,
    /// There is no answer: it may still be carried out.
    Unanswered,
}

/// Carries an action out.
pub(super) async fn carry_out(domain: &Arc<dyn Domain>, action: Action) -> ActionResult {
    match action {
        Action::Abort(cause) => {
            tracing::warn!(reason = %cause, "aborting the migration");
            abort(domain).await
        }
        Action::StartPostCopy => {
            let what = "continuing the guest on the target (post-copy)";
            request(domain, what, |domain| domain.start_post_copy()).await
        }
        Action::Suspend => {
            let what = "pausing the guest so that the migration completes";
            request(domain, what, |domain| domain.suspend()).await
        }
        Action::SetFirstDowntime(milliseconds) | Action::SetMaxDowntime(milliseconds) => {
            let what = "setting the longest downtime of the migration";
            let set = move |domain: &dyn Domain| domain.set_max_downtime(milliseconds);
            tracing::info!(milliseconds, "{what}");
            request(domain, what, set).await
        }
    }
}

async fn request(
    domain: &Arc<dyn Domain>,
    what: &'static str,
    call: impl FnOnce(&dyn Domain) -> libvirt::Result<()> + Send + 'static,
) -> ActionResult {
    match domain_call(domain, what, QUICK, call).await {
        Ok(()) => {
            tracing::info!("{what}: done");
            ActionResult::Out
        }
        Err(error) => {
            tracing::warn!(reason = %error, "{what}: failed");
            failed_action(&error)
        }
    }
}

fn failed_action(error: &JobError) -> ActionResult {
    match error {
        JobError::NoAnswer(_) => ActionResult::Unanswered,
        _ => ActionResult::Refused,
    }
}

async fn abort(domain: &Arc<dyn Domain>) -> ActionResult {
    let give_up = Instant::now() + ABORT;
    loop {
        let left = give_up.saturating_duration_since(Instant::now());
        let call = domain_call(domain, "aborting the migration", left, |domain| {
            domain.abort_job()
        });
        match call.await {
            Ok(()) => return ActionResult::Out,
            Err(JobError::Libvirt(error)) if is_too_early(&error) && Instant::now() < give_up => {
                tokio::time::sleep(ABORT_RETRY).await;
            }
            Err(error) => {
                tracing::error!(reason = %error, "the migration is not aborted");
                return failed_action(&error);
            }
        }
    }
}

fn is_too_early(error: &libvirt::Error) -> bool {
    error.is_operation_invalid() && error.message.contains("no job is active")
}
