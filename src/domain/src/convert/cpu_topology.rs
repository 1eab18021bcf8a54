//! The topology of vCPUs: sockets, cores, threads.

use kubevirt_api::vmi::Vmi;

use crate::convert::error::ConvertError;
use crate::libvirt_spec::CpuTopology;

/// More vCPUs than any machine type of QEMU supports.
const MAX_VCPUS: u32 = 8192;

/// The VMI's topology at boot. Without one, the number of sockets is the pod's CPU limit or request.
pub(crate) fn boot_topology(vmi: &Vmi) -> Result<CpuTopology, ConvertError> {
    check_resources(vmi)?;
    let cpu = vmi.spec.domain.cpu.clone().unwrap_or_default();
    let sockets = if cpu.cores == 0 && cpu.sockets == 0 && cpu.threads == 0 {
        sockets_from_resources(vmi).unwrap_or(1)
    } else {
        cpu.sockets.max(1)
    };
    Ok(CpuTopology {
        sockets,
        cores: cpu.cores.max(1),
        threads: cpu.threads.max(1),
    })
}

fn check_resources(vmi: &Vmi) -> Result<(), ConvertError> {
    let resources = &vmi.spec.domain.resources;
    for (list, amounts) in [
        ("limits", &resources.limits),
        ("requests", &resources.requests),
    ] {
        if let Some(cpus) = amounts.get("cpu").filter(|cpus| cpus.is_negative()) {
            return Err(ConvertError::invalid(format!(
                "spec.domain.resources.{list}.cpu is {cpus}, and must not be negative"
            )));
        }
    }
    Ok(())
}

fn sockets_from_resources(vmi: &Vmi) -> Option<u32> {
    let resources = &vmi.spec.domain.resources;
    let cpus = resources
        .limits
        .get("cpu")
        .or_else(|| resources.requests.get("cpu"))?;
    // `count` returns an error for u32::MAX.
    Some(u32::try_from(cpus.value()).unwrap_or(u32::MAX))
}

/// The number of vCPUs in a topology.
pub(crate) fn count(topology: &CpuTopology) -> Result<u32, ConvertError> {
    let CpuTopology {
        sockets,
        cores,
        threads,
    } = *topology;
    sockets
        .checked_mul(cores)
        .and_then(|product| product.checked_mul(threads))
        .filter(|count| *count <= MAX_VCPUS)
        .ok_or_else(|| {
            ConvertError::invalid(format!(
                "spec.domain.cpu asks for {sockets} sockets x {cores} cores x {threads} threads, \
                 more than {MAX_VCPUS} virtual processors"
            ))
        })
}
