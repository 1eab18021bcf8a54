//! vCPUs and the CPU model: number, topology, features, and which vCPUs can be hotplugged.

use kubevirt_api::vmi;

use crate::convert::arch::Architecture;
use crate::convert::compute::memory;
use crate::convert::conversion_inputs::Context;
use crate::convert::cpu_topology;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    Cpu, CpuFeature, CpuTopology, DomainSpec, Numa, NumaCell, Vcpu, Vcpus, VcpusVcpu, yes_no,
};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let requested = context.vmi.spec.domain.cpu.as_ref();
    let mut topology = context.topology.clone();
    let mut cpus = context.vcpus;
    if let Some(max_sockets) = requested
        .map(|cpu| cpu.max_sockets)
        .filter(|sockets| *sockets != 0 && context.architecture.can_hotplug_cpus())
    {
        topology.sockets = max_sockets;
        cpus = cpu_topology::count(&topology)?;
        spec.vcpus = Some(vcpu_list(&topology, context.vcpus, cpus));
    }
    spec.vcpu = Some(Vcpu {
        placement: "static".into(),
        cpus,
    });
    spec.cpu = Cpu {
        topology: Some(topology),
        ..cpu_model(context, requested)
    };
    if memory::needs_memfd(context) {
        spec.cpu.numa = Some(single_numa_cell(context, cpus));
    }
    Ok(())
}

/// The list of vCPUs. The vCPUs of the first socket are always present, the others can be hotplugged.
fn vcpu_list(topology: &CpuTopology, enabled: u32, all: u32) -> Vcpus {
    let first_socket = topology.cores * topology.threads;
    let vcpu = |id| VcpusVcpu {
        id,
        enabled: yes_no(id < enabled),
        hotpluggable: yes_no(id >= first_socket),
        ..VcpusVcpu::default()
    };
    Vcpus {
        vcpu: (0..all).map(vcpu).collect(),
    }
}

/// The CPU model. A processor that is emulated cannot be the host's: it has all features that QEMU can emulate.
fn cpu_model(context: &Context<'_>, requested: Option<&vmi::Cpu>) -> Cpu {
    let architecture = context.architecture;
    let name = requested.map_or("", |cpu| cpu.model.as_str());
    let (mode, model) = match name {
        "" | "host-model" | "host-passthrough" if context.is_cross_architecture() => {
            ("custom", "max")
        }
        "" => (architecture.default_cpu_mode(), ""),
        "host-model" | "host-passthrough" => (name, ""),
        name => ("custom", name),
    };
    Cpu {
        mode: mode.into(),
        model: model.into(),
        features: requested
            .map(|cpu| features(architecture, cpu))
            .unwrap_or_default(),
        ..Cpu::default()
    }
}

fn features(architecture: &dyn Architecture, cpu: &vmi::Cpu) -> Vec<CpuFeature> {
    let requested = cpu.features.iter().map(|feature| CpuFeature {
        name: feature.name.clone(),
        policy: feature.policy.clone(),
    });
    let is_host_model = matches!(cpu.model.as_str(), "host-model" | "host-passthrough");
    let obsolete = architecture.obsolete_cpu_features().iter();
    let disabled = obsolete
        .filter(|name| !is_host_model && !cpu.features.iter().any(|known| known.name == **name))
        .map(|name| CpuFeature {
            name: (*name).into(),
            policy: "disable".into(),
        });
    requested.chain(disabled).collect()
}

/// A single NUMA cell, without which libvirt does not accept a memfd.
fn single_numa_cell(context: &Context<'_>, cpus: u32) -> Numa {
    let bytes = memory::guest_memory(context.vmi).value();
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
