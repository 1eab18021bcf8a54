//! Sync: from a VMI to a running VM.
//!
//! ```text
//!   Wanted ──prepare──▶ Prepared ──define──▶ (a domain) ──bring_up──▶ running
//!     │ VMI converted      │ hooks ran, images are there                 │ cloud-init image written
//! ```
//! What fails before define leaves no domain, and a repeated sync begins anew, hooks included. After
//! it, a repeated sync only brings the domain up: hooks run once a boot.

mod bring_up;
mod define;
mod grow;
mod prepare;
mod starting;
mod warn;

use std::sync::Arc;

use domain::options::Options;
use domain::vmi::Vmi;
use hook_host::Plugins;
use libvirt::Guest;
use tokio_util::sync::CancellationToken;

use crate::manager::error::OpError;
use crate::manager::requests::Refusal;
use crate::manager::vm::Vm;

/// What virt-handler asks for.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The VM as it should be.
    pub vmi: Vmi,
    /// The cluster's settings.
    pub options: Options,
    /// KubeVirt's Plugins that change the domain.
    pub plugins: Plugins,
    /// Emulation may stand in for hardware virtualization.
    pub allow_emulation: bool,
}

/// Makes the VM what it should be. `interrupted` stops it at the next safe point.
pub(in crate::manager) async fn sync(
    vm: &Vm,
    request: &SyncRequest,
    interrupted: &CancellationToken,
) -> Result<(), OpError> {
    if request.vmi.domain_name() != vm.identity.domain {
        return Err(OpError::OtherVm {
            ours: vm.identity.domain.clone(),
            theirs: request.vmi.domain_name(),
        });
    }
    let wanted = prepare::Wanted::convert(vm, request).await?;
    let guest = match prepared_here(vm, request).await? {
        Some(guest) => {
            grow::grow(vm, &request.vmi, wanted.spec(), &guest).await;
            guest
        }
        None => {
            let prepared = until(interrupted, wanted.prepare(vm)).await?;
            prepared.define(vm).await?
        }
    };
    bring_up::bring_up(vm, request, &guest, interrupted).await?;
    vm.metadata
        .set_grace_period(request.vmi.grace_period_seconds());
    vm.memory().agent_probe_paused = pauses_probes(&request.vmi);
    Ok(())
}

/// The domain, if libvirt knows it and this launcher made it ready to run. One that a launcher before
/// this defined and did not live to start may lack images, and is defined anew.
async fn prepared_here(vm: &Vm, request: &SyncRequest) -> Result<Option<Arc<dyn Guest>>, OpError> {
    let Some(guest) = vm.lookup().await? else {
        return Ok(None);
    };
    let is_ready = vm.memory().defined
        || !vm.state_of(&guest).await?.is_down()
        || bring_up::has_run(&request.vmi);
    if !is_ready {
        tracing::info!("a launcher before this one defined the domain and did not start it");
    }
    Ok(is_ready.then_some(guest))
}

/// KubeVirt reads the annotation as Go reads a boolean.
fn pauses_probes(vmi: &Vmi) -> bool {
    let value = vmi.annotation("kubevirt.io/pause-guest-agent-probes");
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

/// Work that can be dropped at any point.
async fn until<T>(
    interrupted: &CancellationToken,
    work: impl Future<Output = Result<T, OpError>>,
) -> Result<T, OpError> {
    tokio::select! {
        biased;
        () = interrupted.cancelled() => Err(Refusal::Ending.into()),
        result = work => result,
    }
}

/// A point at which nothing is half done.
fn safe_point(interrupted: &CancellationToken) -> Result<(), OpError> {
    if interrupted.is_cancelled() {
        return Err(Refusal::Ending.into());
    }
    Ok(())
}
