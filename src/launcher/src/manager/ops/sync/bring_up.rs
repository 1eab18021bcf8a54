use std::os::fd::AsFd;
use std::sync::Arc;

use domain::vmi::Vmi;
use libvirt::{DomainState, Guest, Start, XmlKind};
use tokio_util::sync::CancellationToken;

use super::{SyncRequest, safe_point, starting};
use crate::manager::error::OpError;
use crate::manager::vm::{COMMAND, QUICK, START, Vm};

/// Brings a defined domain to where the VMI wants it: started if it is off, resumed if it is paused
/// for no reason of its owner's.
pub(super) async fn bring_up(
    vm: &Vm,
    request: &SyncRequest,
    guest: &Arc<dyn Guest>,
    interrupted: &CancellationToken,
) -> Result<(), OpError> {
    safe_point(interrupted)?;
    let state = vm.state_of(guest).await?;
    let paused_by_user = vm.memory().paused_by_user;
    if state.is_down() && !has_run(&request.vmi) {
        write_cloud_init(vm, &request.vmi, guest).await?;
        safe_point(interrupted)?;
        return start(vm, &request.vmi, guest).await;
    }
    if state.state == DomainState::Paused && !paused_by_user {
        vm.on(guest, "resuming the domain", COMMAND, |guest| {
            guest.resume()
        })
        .await?;
        tracing::info!("domain resumed");
    }
    Ok(())
}

/// A VMI in one of these phases is not started again: it ran, and ended.
pub(super) fn has_run(vmi: &Vmi) -> bool {
    let phase = vmi
        .value()
        .pointer("/status/phase")
        .and_then(|phase| phase.as_str());
    matches!(phase, Some("Running" | "Succeeded" | "Failed"))
}

async fn start(vm: &Vm, vmi: &Vmi, guest: &Arc<dyn Guest>) -> Result<(), OpError> {
    let by_owner = vmi.starts_paused();
    let how = Start {
        paused: (by_owner || isolates_emulator(vmi)) && !vm.preparation.test_driver,
        ..Start::RUNNING
    };
    lend_iommufd(vm, guest).await?;
    let looking_out = starting::watch(vm, guest);
    vm.on(guest, "starting the domain", START, move |guest| {
        guest.start(how)
    })
    .await
    .map_err(|error| error.naming_hook(&*vm.hooks))?;
    drop(looking_out);
    if by_owner && vm.preparation.test_driver {
        vm.on(guest, "pausing the domain", COMMAND, |guest| {
            guest.suspend()
        })
        .await?;
    }
    vm.memory().paused_by_user = by_owner;
    tracing::info!(paused = by_owner, "domain started");
    Ok(())
}

/// libvirt opens host devices through it that name the group.
async fn lend_iommufd(vm: &Vm, guest: &Arc<dyn Guest>) -> Result<(), OpError> {
    const GROUP: &str = "iommu";
    let Some(device) = vm.preparation.iommufd.get() else {
        return Ok(());
    };
    vm.on(guest, "lending the iommufd", QUICK, move |guest| {
        guest.associate_fds(GROUP, &[device.as_fd()])
    })
    .await
}

/// The emulator's threads are moved to their own processor before the guest's first instruction.
fn isolates_emulator(vmi: &Vmi) -> bool {
    let cpu = vmi.value().pointer("/spec/domain/cpu");
    cpu.is_some_and(|cpu| {
        cpu["dedicatedCpuPlacement"] == true && cpu["isolateEmulatorThread"] == true
    })
}

async fn write_cloud_init(vm: &Vm, vmi: &Vmi, guest: &Arc<dyn Guest>) -> Result<(), OpError> {
    let Some(image) = vm.memory().cloud_init.clone() else {
        return Ok(());
    };
    let xml = vm
        .on(guest, "reading the domain's description", QUICK, |guest| {
            guest.xml(XmlKind::Inactive)
        })
        .await?;
    Ok(vm.preparation.write_cloud_init(vmi, &xml, image).await?)
}
