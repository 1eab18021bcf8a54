//! Reads the XML of the running domain or of its definition.

use std::sync::Arc;

use domain::reconcile::LiveDomain;
use libvirt::{Domain, XmlKind};

use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;

/// The running domain, as libvirt describes it.
pub(super) async fn read_live_domain(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, CommandError> {
    read(vm, domain, XmlKind::Active).await
}

/// The domain's definition, as libvirt describes it.
pub(super) async fn read_definition(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, CommandError> {
    read(vm, domain, XmlKind::Inactive).await
}

async fn read(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
) -> Result<LiveDomain, CommandError> {
    let xml = vm.client.xml(domain, kind).await?;
    LiveDomain::parse(xml).map_err(|error| {
        CommandError::DomainDescription(format!(
            "reading libvirt's description of the running domain: {error}"
        ))
    })
}
