use std::sync::Arc;
use std::time::Duration;

use libvirt::Guest;

use super::prepare::Prepared;
use crate::manager::error::OpError;
use crate::manager::state::VmState;
use crate::manager::vm::{COMMAND, Vm};

/// What happens before the start is to be told before it, too: what is told is how the domain is at
/// the time. That takes milliseconds; the start does not depend on it.
const TELLING: Duration = Duration::from_millis(500);

impl Prepared<'_> {
    /// Makes libvirt know the domain.
    pub(super) async fn define(self, vm: &Vm) -> Result<Arc<dyn Guest>, OpError> {
        let xml = self.xml;
        tracing::debug!(xml, "defining the domain");
        let guest = vm
            .libvirt("defining the domain", COMMAND, move |hypervisor| {
                hypervisor.define(&xml)
            })
            .await
            .map_err(|error| error.naming_hook(&*vm.hooks))?;
        vm.memory().cloud_init = self.cloud_init;
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

async fn in_time<T>(what: &str, told: impl Future<Output = T>) {
    if tokio::time::timeout(TELLING, told).await.is_err() {
        tracing::warn!("virt-handler could not be told of the {what} within {TELLING:?}");
    }
}
