//! libvirt's migrate call: its preparation, and the thread that makes it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use domain::migration::{
    MigrationXmlError, TargetCpuPlacement, TargetEdits, migrated_volume_disks, target_xml,
};
use domain_xml::Document;
use libvirt::{Domain, DomainState, MigrationRequest, XmlKind};
use tokio::sync::oneshot;

use super::migrate_call_parameters;
use super::migration_request::MigrationJob;
use super::monitor_calls::{QUERY_TIMEOUT, state};
use super::sriov_detach_and_reattach::{self, DetachedDevices};
use crate::jobs::{JobContext, JobError, domain_call};

/// Receives the result of libvirt's call.
pub(super) type MigrateResult = oneshot::Receiver<libvirt::Result<()>>;

/// A prepared call.
pub(super) struct PreparedCall {
    destination: String,
    request: MigrationRequest,
    /// Whether the guest is paused, and stays paused on the target.
    pub(super) is_paused: bool,
}

/// Detaches SR-IOV interfaces, which cannot migrate, and creates the parameters of the call with the domain for the
/// target.
pub(super) async fn prepare(
    context: &JobContext,
    job: &MigrationJob,
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<PreparedCall, JobError> {
    let environment = &context.migration;
    let cpu_placement = match environment.sets_target_names_and_cpus {
        true => TargetCpuPlacement::of(job.vmi(), &environment.facts)?,
        false => None,
    };
    let is_paused = state(domain).await?.state == DomainState::Paused;
    sriov_detach_and_reattach::detach(domain, detached).await?;
    let read = |domain: &dyn Domain| domain.xml(XmlKind::Migratable);
    let xml = domain_call(
        domain,
        "reading the domain's migratable XML",
        QUERY_TIMEOUT,
        read,
    )
    .await?;
    let document = Document::parse(&xml)
        .map_err(|error| JobError::from(MigrationXmlError::Domain(error.into())))?;
    let edits = TargetEdits {
        cpu_placement,
        rewrites_disk_paths: environment.sets_target_names_and_cpus,
        disk_sizes: disk_sizes(job, domain, &document).await?,
    };
    let xml = target_xml(xml, job.vmi(), &edits)?;
    Ok(PreparedCall {
        destination: migrate_call_parameters::destination(job, &environment.share),
        request: migrate_call_parameters::request(
            job,
            &environment.share,
            &document,
            xml,
            is_paused,
        ),
        is_paused,
    })
}

/// The virtual sizes of the disks of migrated volumes in bytes, by volume.
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
    let infos = domain_call(
        domain,
        "asking for the sizes of the disks",
        QUERY_TIMEOUT,
        read,
    )
    .await?;
    let sizes = disks.into_iter().filter_map(|(volume, path)| {
        let info = infos.get(&path)?;
        Some((volume, info.capacity))
    });
    Ok(sizes.collect())
}

/// Makes the call on a thread of its own, because it may take hours and the pool's threads are for short calls.
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
        .map_err(|_| JobError::Internal)?;
    Ok(migrated)
}
