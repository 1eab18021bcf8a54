//! Reads the XML of the running domain or of its definition.

use std::sync::Arc;

use domain::reconcile::LiveDomain;
use libvirt::{Domain, XmlKind};

use crate::manager::command_error::OpError;
use crate::manager::vm_context::VmContext;

/// The running domain, as libvirt describes it.
pub(super) async fn read_live_domain(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, OpError> {
    read(vm, domain, XmlKind::Active).await
}

/// The domain's definition, as libvirt describes it.
pub(super) async fn read_definition(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
) -> Result<LiveDomain, OpError> {
    read(vm, domain, XmlKind::Inactive).await
}

async fn read(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
) -> Result<LiveDomain, OpError> {
    let xml = vm.client.xml(domain, kind).await?;
    LiveDomain::parse(xml).map_err(|error| {
        OpError::Description(format!(
            "reading libvirt's description of the running domain: {error}"
        ))
    })
}
