use std::sync::Arc;
use std::time::Duration;

use domain::hotplug_room::Definition;
use libvirt::{Guest, Undefine, XmlKind};

use super::prepare::Prepared;
use crate::manager::error::OpError;
use crate::manager::state::VmState;
use crate::manager::vm::{COMMAND, QUICK, Vm};

/// What happens before the start is to be told before it, too: what is told is how the domain is at
/// the time. That takes milliseconds; the start does not depend on it.
const TELLING: Duration = Duration::from_millis(500);

impl Prepared<'_> {
    /// Makes libvirt know the domain, with room for hotplug in it.
    pub(super) async fn define(self, vm: &Vm) -> Result<Arc<dyn Guest>, OpError> {
        let definition = Definition::plan(self.vmi, self.xml)?;
        // Nobody is told of what is only half defined.
        let defining = vm.defining.lock().await;
        let guest = define(vm, definition.first().to_owned()).await?;
        if definition.has_second()
            && let Err(error) = define_again(vm, &guest, &definition).await
        {
            forget(vm, &guest).await;
            return Err(error);
        }
        drop(defining);
        {
            let mut memory = vm.memory();
            memory.defined = true;
            memory.cloud_init = self.cloud_init;
        }
        vm.credentials.send_replace(self.credentials);
        let mut state = vm.state.clone();
        let seen = state.wait_for(|state| *state != VmState::Absent);
        in_time("definition", seen).await;
        vm.metadata
            .set_identity(self.vmi.uid(), self.vmi.grace_period_seconds());
        in_time("metadata", vm.metadata.all_told()).await;
        tracing::info!("domain defined");
        Ok(guest)
    }
}

async fn define(vm: &Vm, xml: String) -> Result<Arc<dyn Guest>, OpError> {
    tracing::debug!(xml, "defining the domain");
    vm.libvirt("defining the domain", COMMAND, move |hypervisor| {
        hypervisor.define(&xml)
    })
    .await
    .map_err(|error| error.naming_hook(&*vm.hooks))
}

/// libvirt has given the devices their addresses; the rest is edited into what it made of the domain.
async fn define_again(
    vm: &Vm,
    guest: &Arc<dyn Guest>,
    definition: &Definition,
) -> Result<(), OpError> {
    let defined = vm
        .on(guest, "reading the domain's description", QUICK, |guest| {
            guest.xml(XmlKind::Inactive)
        })
        .await?;
    if let Some(xml) = definition.second(&defined)? {
        define(vm, xml).await?;
    }
    Ok(())
}

/// What failed leaves no domain, so that the next sync begins anew.
async fn forget(vm: &Vm, guest: &Arc<dyn Guest>) {
    let undefined = vm.on(guest, "undefining the domain", COMMAND, |guest| {
        guest.undefine(Undefine::KEEP)
    });
    if let Err(error) = undefined.await {
        tracing::error!(reason = %error, "a domain that is half defined stays");
    }
}

async fn in_time<T>(what: &str, told: impl Future<Output = T>) {
    if tokio::time::timeout(TELLING, told).await.is_err() {
        tracing::warn!("virt-handler could not be told of the {what} within {TELLING:?}");
    }
}
