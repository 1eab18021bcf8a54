//! Defines a prepared domain in libvirt.

use std::sync::Arc;
use std::time::Duration;

use domain::hotplug_ports::{DefinitionPlan, HotplugPorts, free_root_ports};
use libvirt::{Domain, UndefineOptions, XmlKind};

use super::super::prepare_domain::PreparedDomain;
use crate::libvirt_client::COMMAND;
use crate::manager::command_error::CommandError;
use crate::manager::vm_context::VmContext;
use crate::manager::vm_phase_and_migration_role::Phase;

/// How long to wait for each notification of the definition. They have to be sent before the start, because a
/// notification contains the domain as it is when it is sent. That takes milliseconds; after the timeout the domain is
/// started anyway.
const PUBLISH_TIMEOUT: Duration = Duration::from_millis(500);

impl PreparedDomain<'_> {
    /// Defines the domain, with free root ports for hotplug.
    pub(super) async fn define(self, vm: &VmContext) -> Result<Arc<dyn Domain>, CommandError> {
        let kubevirt = vm.boot_resources.facts.kubevirt_version;
        let definition = DefinitionPlan::plan_for(kubevirt, self.vmi, self.xml)?;
        // Nothing is published until the definition is complete.
        let defining = vm.defining.lock().await;
        let domain = define(vm, definition.first().to_owned()).await?;
        if definition.has_second()
            && let Err(error) = define_again(vm, &domain, &definition).await
        {
            undefine(vm, &domain).await;
            return Err(error);
        }
        drop(defining);
        {
            let mut state = vm.driver_state();
            state.defined = true;
            state.cloud_init = self.cloud_init;
            state.applied_hooks = self.applied_hooks;
        }
        vm.credentials.send_replace(self.credentials);
        let mut phase = vm.phase.clone();
        let defined = phase.wait_for(|phase| *phase != Phase::Absent);
        wait_for_publication("definition", defined).await;
        vm.metadata
            .set_identity(self.vmi.uid(), self.vmi.grace_period_seconds());
        wait_for_publication("metadata", vm.metadata.all_published()).await;
        tracing::info!("domain defined");
        Ok(domain)
    }
}

async fn define(vm: &VmContext, xml: String) -> Result<Arc<dyn Domain>, CommandError> {
    tracing::debug!(xml, "defining the domain");
    vm.client
        .libvirt("defining the domain", COMMAND, move |hypervisor| {
            hypervisor.define(&xml)
        })
        .await
        .map_err(|error| CommandError::from(error).with_hook(|text| vm.hooks.hook_of_refusal(text)))
}

/// Defines the domain a second time, after libvirt has assigned addresses. libvirt's XML is edited, so that nothing of
/// it is lost.
async fn define_again(
    vm: &VmContext,
    domain: &Arc<dyn Domain>,
    definition: &DefinitionPlan,
) -> Result<(), CommandError> {
    let defined = vm.client.xml(domain, XmlKind::Inactive).await?;
    if let Some(xml) = definition.second(&defined)? {
        define(vm, xml).await?;
        report_missing_ports(vm, domain, definition.ports()).await;
    }
    Ok(())
}

/// Logs if libvirt's domain has fewer free root ports than were reserved. The VM starts with them all the same.
async fn report_missing_ports(vm: &VmContext, domain: &Arc<dyn Domain>, reserved: HotplugPorts) {
    let reserved = reserved.placeholders.saturating_add(reserved.spare_ports);
    let free = match vm.client.xml(domain, XmlKind::Inactive).await {
        Ok(defined) => free_root_ports(&defined).map_err(CommandError::from),
        Err(error) => Err(error.into()),
    };
    match free {
        Ok(free) if free >= reserved => {
            tracing::debug!(free, reserved, "PCIe root ports for hotplug");
        }
        Ok(free) => tracing::warn!(
            free,
            reserved,
            "fewer PCIe root ports are free for hotplug than were reserved"
        ),
        Err(error) => {
            let reason = error.message();
            tracing::warn!(reason, "the free PCIe root ports cannot be counted");
        }
    }
}

/// Undefines the domain after a failure, so that the next sync starts from the beginning.
async fn undefine(vm: &VmContext, domain: &Arc<dyn Domain>) {
    let undefined = vm
        .client
        .on(domain, "undefining the domain", COMMAND, |domain| {
            domain.undefine(UndefineOptions::KEEP)
        });
    if let Err(error) = undefined.await {
        tracing::error!(reason = %error, "a domain that is half defined stays");
    }
}

async fn wait_for_publication<T>(what: &str, published: impl Future<Output = T>) {
    if tokio::time::timeout(PUBLISH_TIMEOUT, published)
        .await
        .is_err()
    {
        tracing::warn!(
            "virt-handler could not be notified of the {what} within {PUBLISH_TIMEOUT:?}"
        );
    }
}
