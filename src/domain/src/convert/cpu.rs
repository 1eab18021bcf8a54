//! Processors: how many, which model, which can be plugged.

use super::context::yes_no;
use super::{Context, ConvertError, memory};
use crate::spec::{
    Cpu, CpuFeature, CpuTopology, DomainSpec, Numa, NumaCell, Vcpu, Vcpus, VcpusVcpu,
};
use crate::vmi::{self, Vmi};

/// More than any machine type of QEMU can have.
const MAX_VCPUS: u32 = 8192;

/// The topology asked for. Without one, sockets follow the pod's processor limit or request.
pub(super) fn boot_topology(vmi: &Vmi) -> Result<CpuTopology, ConvertError> {
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
            return Err(ConvertError::refused(format!(
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
    // Beyond 32 bits there are too many either way; `count` says so.
    Some(u32::try_from(cpus.value()).unwrap_or(u32::MAX))
}

/// How many processors a topology has.
pub(super) fn count(topology: &CpuTopology) -> Result<u32, ConvertError> {
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
            ConvertError::refused(format!(
                "spec.domain.cpu asks for {sockets} sockets x {cores} cores x {threads} threads, \
                 more than {MAX_VCPUS} virtual processors"
            ))
        })
}

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let requested = context.vmi.spec.domain.cpu.as_ref();
    let mut topology = context.topology.clone();
    let mut cpus = context.vcpus;
    if let Some(max_sockets) = requested
        .map(|cpu| cpu.max_sockets)
        .filter(|sockets| *sockets != 0)
    {
        topology.sockets = max_sockets;
        cpus = count(&topology)?;
        spec.vcpus = Some(pluggable(&topology, context.vcpus, cpus));
    }
    spec.vcpu = Some(Vcpu {
        placement: "static".into(),
        cpus,
    });
    spec.cpu = Cpu {
        topology: Some(topology),
        ..model(requested)
    };
    if memory::needs_memfd(context) {
        spec.cpu.numa = Some(one_cell(context, cpus));
    }
    Ok(())
}

/// Every processor by itself: those of the first socket are always there, the rest can be plugged.
fn pluggable(topology: &CpuTopology, enabled: u32, all: u32) -> Vcpus {
    let fixed = topology.cores * topology.threads;
    let vcpu = |id| VcpusVcpu {
        id,
        enabled: yes_no(id < enabled),
        hotpluggable: yes_no(id >= fixed),
        ..VcpusVcpu::default()
    };
    Vcpus {
        vcpu: (0..all).map(vcpu).collect(),
    }
}

fn model(requested: Option<&vmi::Cpu>) -> Cpu {
    let name = requested.map_or("", |cpu| cpu.model.as_str());
    let (mode, model) = match name {
        "" => ("host-model", ""),
        "host-model" | "host-passthrough" => (name, ""),
        name => ("custom", name),
    };
    Cpu {
        mode: mode.into(),
        model: model.into(),
        features: requested.map(features).unwrap_or_default(),
        ..Cpu::default()
    }
}

fn features(cpu: &vmi::Cpu) -> Vec<CpuFeature> {
    let mut features: Vec<_> = cpu
        .features
        .iter()
        .map(|feature| CpuFeature {
            name: feature.name.clone(),
            policy: feature.policy.clone(),
        })
        .collect();
    // libvirt's model descriptions still list mpx, which newer processors lack.
    let is_host_model = matches!(cpu.model.as_str(), "host-model" | "host-passthrough");
    if !is_host_model && !cpu.features.iter().any(|feature| feature.name == "mpx") {
        features.push(CpuFeature {
            name: "mpx".into(),
            policy: "disable".into(),
        });
    }
    features
}

/// A memfd needs a NUMA cell to hang on.
fn one_cell(context: &Context<'_>, cpus: u32) -> Numa {
    let bytes = memory::guest(context.vmi).value();
    Numa {
        cells: vec![NumaCell {
            id: "0".into(),
            cpus: format!("0-{}", cpus.saturating_sub(1)),
            memory: Some(u64::try_from(bytes / 1024).unwrap_or_default()),
            unit: "KiB".into(),
            ..NumaCell::default()
        }],
    }
}
