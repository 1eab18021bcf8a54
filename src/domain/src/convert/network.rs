//! Network interfaces.

use std::collections::HashSet;

use super::pci_address;
use super::{Context, ConvertError};
use crate::pod_network::is_tap;
use crate::spec::{
    Acpi, Alias, BootOrder, DomainSpec, Interface, InterfaceBackend, InterfaceDriver,
    InterfacePortForward, InterfacePortForwardRange, InterfaceSource, LinkState, Mac, Model, Rom,
};
use crate::vmi;

/// More queues than a tap device can have.
const MAX_QUEUES: u32 = 256;
const PASST_LOG: &str = "/var/run/kubevirt/passt.log";
const INJECT_ISTIO: &str = "sidecar.istio.io/inject";
/// Ports of Istio's proxy (<https://istio.io/latest/docs/ops/deployment/application-requirements/>).
const ISTIO_PORTS: [u64; 10] = [
    15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090,
];

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let networks = context.vmi.spec.networks.iter();
    let networks: HashSet<_> = networks.map(|network| network.name.as_str()).collect();
    for interface in context
        .devices()
        .interfaces
        .iter()
        .filter(|interface| interface.state != "absent")
    {
        if !networks.contains(interface.name.as_str()) {
            return Err(ConvertError::refused(format!(
                "failed to find network {}",
                interface.name
            )));
        }
        // A binding plugin that attaches by itself brings its own interface; SR-IOV is a host device.
        if interface.sriov.is_none()
            && (interface.binding.is_none() || is_tap(context.options, interface))
        {
            spec.devices.interfaces.push(convert(context, interface)?);
        }
    }
    Ok(())
}

fn convert(context: &Context<'_>, source: &vmi::Interface) -> Result<Interface, ConvertError> {
    let is_virtio = matches!(source.model.as_str(), "" | "virtio");
    let model = if is_virtio {
        context.virtio_model
    } else {
        &source.model
    };
    let mut interface = Interface {
        alias: Some(Alias::user(&source.name)),
        model: Some(Model { kind: model.into() }),
        driver: if is_virtio { queues(context) } else { None },
        acpi: (source.acpi_index > 0).then_some(Acpi {
            index: source.acpi_index,
        }),
        mac: (!source.mac_address.is_empty()).then(|| Mac {
            mac: source.mac_address.clone(),
        }),
        ..Interface::default()
    };
    if !source.pci_address.is_empty() {
        let address = pci_address::parse(&source.pci_address).map_err(|error| {
            ConvertError::refused(format!(
                "failed to configure interface {}: {error}",
                source.name
            ))
        })?;
        interface.address = Some(address);
    }
    if is_tap(context.options, source) {
        attach_tap(context, source, &mut interface);
    } else if source.passt_binding.is_some() {
        attach_passt(context, source, &mut interface)?;
    } else {
        return Err(ConvertError::refused(format!(
            "interface {}: no domain attachment was given for it (interfaceDomainAttachment)",
            source.name
        )));
    }
    Ok(interface)
}

fn queues(context: &Context<'_>) -> Option<InterfaceDriver> {
    let is_multiqueue = context.devices().network_interface_multiqueue == Some(true);
    let queues = is_multiqueue
        .then(|| context.vcpus.min(MAX_QUEUES).into())
        .filter(|queues| *queues > 0);
    let iommu = context.iommu();
    (queues.is_some() || !iommu.is_empty()).then(|| InterfaceDriver {
        name: "vhost".into(),
        queues,
        iommu,
    })
}

fn attach_tap(context: &Context<'_>, source: &vmi::Interface, interface: &mut Interface) {
    interface.kind = "ethernet".into();
    interface.boot_order = source.boot_order.map(|order| BootOrder { order });
    // Where nothing boots from it, its option ROM only costs time; encrypted memory cannot hold one.
    if source.boot_order.is_none() || context.protection.encrypts_memory() {
        interface.rom = Some(Rom {
            enabled: "no".into(),
        });
    }
    if source.state == "down" {
        interface.link_state = Some(LinkState {
            state: "down".into(),
        });
    }
}

fn attach_passt(
    context: &Context<'_>,
    source: &vmi::Interface,
    interface: &mut Interface,
) -> Result<(), ConvertError> {
    let status = context
        .vmi
        .status
        .interfaces
        .iter()
        .find(|status| status.name == source.name);
    let device = status.map_or("", |status| status.pod_interface_name.as_str());
    if device.is_empty() {
        return Err(ConvertError::refused(format!(
            "pod interface name not found in vmi {} status, for interface {}",
            context.vmi.name(),
            source.name
        )));
    }
    interface.kind = "vhostuser".into();
    interface.source = InterfaceSource {
        device: device.into(),
        ..InterfaceSource::default()
    };
    interface.backend = Some(InterfaceBackend {
        kind: "passt".into(),
        log_file: PASST_LOG.into(),
    });
    interface.port_forward = forwards(&source.ports, is_in_mesh(context));
    Ok(())
}

/// Istio's proxy runs in the pod and keeps its own ports.
fn is_in_mesh(context: &Context<'_>) -> bool {
    context
        .vmi
        .annotation(INJECT_ISTIO)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Forwards the ports that are named, or all of them. Passt knows TCP and UDP only; as in KubeVirt, a
/// port of another protocol is not forwarded.
fn forwards(ports: &[vmi::Port], in_mesh: bool) -> Vec<InterfacePortForward> {
    let forward = |proto: &str, ranges| InterfacePortForward {
        proto: proto.into(),
        ranges,
        ..InterfacePortForward::default()
    };
    let of = |protocols: &[&str]| {
        let named = ports
            .iter()
            .filter(|port| protocols.contains(&port.protocol.to_ascii_lowercase().as_str()));
        named
            .map(|port| range(port.port.into()))
            .collect::<Vec<_>>()
    };
    let reserved = ISTIO_PORTS.iter().filter(|_| in_mesh);
    let mut tcp: Vec<_> = reserved
        .map(|port| InterfacePortForwardRange {
            exclude: "yes".into(),
            ..range(*port)
        })
        .collect();
    tcp.extend(of(&["", "tcp"]));
    let udp = of(&["udp"]);
    if tcp.is_empty() && udp.is_empty() {
        return vec![forward("tcp", tcp), forward("udp", udp)];
    }
    let mut forwards = vec![forward("tcp", tcp), forward("udp", udp)];
    forwards.retain(|forward| !forward.ranges.is_empty());
    forwards
}

fn range(start: u64) -> InterfacePortForwardRange {
    InterfacePortForwardRange {
        start,
        ..InterfacePortForwardRange::default()
    }
}
