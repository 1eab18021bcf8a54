//! What KubeVirt's launcher adds to a domain before it defines the domain: placeholder interfaces and spare root ports.

use anyhow::Result;
use domain::libvirt_spec::{Controller, DomainSpec, Interface, InterfaceTarget, Model};
use kubevirt_api::vmi::Vmi;
use serde_json::Value;

fn placeholder(number: usize, model: &str) -> Interface {
    Interface {
        kind: "ethernet".into(),
        model: Some(Model { kind: model.into() }),
        target: Some(InterfaceTarget {
            device: format!("placeholder-{number}"),
            managed: "no".into(),
        }),
        ..Interface::default()
    }
}

/// The first definition of KubeVirt's launcher, which has the placeholder interfaces; `None` without placeholders.
pub(crate) fn kubevirts_first_definition(
    vmi: &Vmi,
    spec: &DomainSpec,
    placeholders: usize,
) -> Option<DomainSpec> {
    let mut first = spec.clone();
    let model = match vmi.is_virtio_transitional() {
        true => "virtio-transitional",
        false => "virtio-non-transitional",
    };
    let more = (0..placeholders).map(|number| placeholder(number, model));
    first.devices.interfaces.extend(more);
    (placeholders > 0).then_some(first)
}

/// Adds root ports after the existing ones. The first bus has at most 31.
pub(crate) fn add_spare_ports(spec: &mut DomainSpec, ports: usize) {
    let controllers = &mut spec.devices.controllers;
    let indices = controllers
        .iter()
        .filter(|controller| controller.kind == "pci")
        .filter_map(|controller| controller.index.parse::<usize>().ok());
    let next = indices.max().unwrap_or_default() + 1;
    controllers.extend((next..=31).take(ports).map(|index| Controller {
        kind: "pci".into(),
        index: index.to_string(),
        model: "pcie-root-port".into(),
        ..Controller::default()
    }));
}

/// The number of placeholder interfaces and of spare ports, computed as KubeVirt does, before any hook.
pub(crate) fn hotplug_ports(vmi: &Vmi, spec: &DomainSpec) -> Result<(usize, usize)> {
    const LARGE: u64 = 2 << 30;
    let on_root_complex =
        vmi.annotation("kubevirt.io/placePCIDevicesOnRootComplex") == Some("true");
    let interfaces = vmi.spec.domain.devices.interfaces.len();
    let placeholders = match vmi.annotation("kubevirt.io/pci-interface-slot-count") {
        Some(slots) => slots.parse::<usize>()?.saturating_sub(interfaces),
        None if on_root_complex || interfaces == 0 => 0,
        None => 4_usize.saturating_sub(interfaces),
    };
    if on_root_complex {
        return Ok((placeholders, 0));
    }
    let (minimum_total, minimum_free) = if spec.memory.value > LARGE {
        (16, 6)
    } else {
        (8, 3)
    };
    let used = pci_devices(&serde_json::to_value(&spec.devices)?);
    let free = usize::max(minimum_total.max(used) - used, minimum_free);
    Ok((placeholders, free.saturating_sub(placeholders)))
}

/// The number of devices that KubeVirt counts as PCI devices, from its JSON of the devices.
fn pci_devices(devices: &Value) -> usize {
    let is_pci = |kind: &str, device: &Value| match kind {
        "Interfaces" | "Watchdogs" | "Rng" | "Ballooning" => true,
        "HostDevices" => device["Type"] == "pci",
        "Controllers" => {
            let model = device["Model"].as_str().unwrap_or_default();
            !["pci-root", "pcie-root", "pcie-expander-bus"].contains(&model)
        }
        "Disks" => device["Target"]["Bus"] == "virtio",
        "Inputs" => device["Bus"] == "virtio",
        _ => false,
    };
    let is_on_other_bus = |device: &Value| {
        let bus = device["Address"]["Type"].as_str().unwrap_or_default();
        !matches!(bus, "" | "pci")
    };
    let fields = devices.as_object().into_iter().flatten();
    fields
        .flat_map(|(kind, devices)| {
            let list = match devices {
                Value::Array(list) => list.as_slice(),
                Value::Null => &[],
                device => std::slice::from_ref(device),
            };
            list.iter().map(move |device| (kind, device))
        })
        .filter(|(kind, device)| is_pci(kind, device) && !is_on_other_bus(device))
        .count()
}
