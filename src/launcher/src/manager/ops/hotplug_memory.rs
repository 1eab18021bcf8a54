//! Memory hotplug: attaches a virtio-mem device, or changes the size of the attached one.

use domain::reconcile::{MemoryChange, memory_change};
use kubevirt_api::vmi::Vmi;
use libvirt::{Affect, Domain};

use super::read_domain_xml::read_live_domain;
use crate::libvirt_client::COMMAND;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::manager::{CommandSuccess, DeviceChangeError};

/// Sets the running VM's memory to that of its VMI. The guest follows later; libvirt sends an event for each step.
pub(in crate::manager) async fn set_memory(
    vm: &VmContext,
    vmi: &Vmi,
) -> Result<CommandSuccess, CommandError> {
    let domain = vm.client.lookup().await?.ok_or(CommandError::NotFound)?;
    let live = read_live_domain(vm, &domain).await?;
    let Some(change) = memory_change(vmi, &live)? else {
        return Ok(CommandSuccess::Unchanged);
    };
    tracing::debug!(?change, "changing the guest's memory");
    let change = move |domain: &dyn Domain| match &change {
        MemoryChange::Attach(xml) => domain.attach_device(xml, Affect::LiveAndConfig),
        MemoryChange::Update(xml) => domain.update_device(xml, Affect::Live),
    };
    let what = "changing the guest's memory";
    let changed = vm.client.on(&domain, what, COMMAND, change).await;
    changed.map_err(|error| DeviceChangeError::failed(what.into(), error.message(), vmi))?;
    if let Some(settings) = &mut vm.driver_state().settings {
        settings.set_memory(vmi);
    }
    Ok(CommandSuccess::Changed)
}
