use std::sync::Arc;
use std::time::Duration;

use libvirt::Guest;

use super::prepare::Prepared;
use crate::manager::error::OpError;
use crate::manager::state::VmState;
use crate::manager::vm::{COMMAND, Vm};

/// libvirt's own word on the definition is waited for this long, so that virt-handler hears of the
/// domain before it hears of its start. It comes within a millisecond.
const LIBVIRTS_WORD: Duration = Duration::from_millis(500);

impl Prepared<'_> {
    /// Makes libvirt know the domain.
    pub(super) async fn define(self, vm: &Vm) -> Result<Arc<dyn Guest>, OpError> {
        let xml = self.xml;
        tracing::debug!(xml, "defining the domain");
        let guest = vm
            .libvirt("defining the domain", COMMAND, move |hypervisor| {
                hypervisor.define(&xml)
            })
            .await?;
        vm.memory().cloud_init = self.cloud_init;
        let mut state = vm.state.clone();
        let seen = state.wait_for(|state| *state != VmState::Absent);
        if tokio::time::timeout(LIBVIRTS_WORD, seen).await.is_err() {
            tracing::warn!("libvirt has not told of the definition within {LIBVIRTS_WORD:?}");
        }
        vm.metadata
            .set_identity(self.vmi.uid(), self.vmi.grace_period_seconds());
        tracing::info!("domain defined");
        Ok(guest)
    }
}
