//! libvirt's migrate call: its parameters, and the thread that waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use domain::migration::{
    DestinationEdits, MigrationXmlError, TargetProcessors, destination_xml, migrated_volume_disks,
};
use domain_xml::Document;
use libvirt::{Domain, DomainState, MigrationRequest, XmlKind};
use tokio::sync::oneshot;

use super::libvirt_parameters;
use super::migration_request::MigrationJob;
use super::monitor_actions::{QUICK, state};
use super::sriov_interfaces::{self, DetachedDevices};
use crate::jobs::{JobContext, JobError, domain_call};

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
