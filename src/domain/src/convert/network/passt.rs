//! Interfaces with the passt binding.

use kubevirt_api::vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    Interface, InterfaceBackend, InterfacePortForward, InterfacePortForwardRange, InterfaceSource,
};

const PASST_LOG_PATH: &str = "/var/run/kubevirt/passt.log";
const INJECT_ISTIO_ANNOTATION: &str = "sidecar.istio.io/inject";
/// Ports of Istio's proxy (<https://istio.io/latest/docs/ops/deployment/application-requirements/>).
const ISTIO_PORTS: [u64; 10] = [
    15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090,
];

pub(crate) fn attach(
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
        return Err(ConvertError::invalid(format!(
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
        log_file: PASST_LOG_PATH.into(),
    });
    interface.port_forward = port_forwards(&source.ports, has_istio_proxy(context));
    Ok(())
}

/// Whether Istio's proxy runs in the pod. Its ports are not forwarded.
fn has_istio_proxy(context: &Context<'_>) -> bool {
    context
        .vmi
        .annotation(INJECT_ISTIO_ANNOTATION)
        .is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Forwards the listed ports, or all of them. passt supports TCP and UDP; as in KubeVirt, ports of other protocols
/// are not forwarded.
fn port_forwards(ports: &[vmi::Port], has_istio_proxy: bool) -> Vec<InterfacePortForward> {
    let forward = |proto: &str, ranges| InterfacePortForward {
        proto: proto.into(),
        ranges,
        ..InterfacePortForward::default()
    };
    let ranges_of = |protocols: &[&str]| {
        let matching = ports
            .iter()
            .filter(|port| protocols.contains(&port.protocol.to_ascii_lowercase().as_str()));
        matching
            .map(|port| range(port.port.into()))
            .collect::<Vec<_>>()
    };
    let reserved = ISTIO_PORTS.iter().filter(|_| has_istio_proxy);
    let mut tcp: Vec<_> = reserved
        .map(|port| InterfacePortForwardRange {
            exclude: "yes".into(),
            ..range(*port)
        })
        .collect();
    tcp.extend(ranges_of(&["", "tcp"]));
    let udp = ranges_of(&["udp"]);
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
