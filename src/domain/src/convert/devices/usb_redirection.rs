//! Ports to which clients can redirect USB devices.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, RedirectedDevice, RedirectedDeviceSource};

/// The number of USB devices that clients can redirect at the same time.
const PORT_COUNT: usize = 4;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.devices().client_passthrough.is_some() {
        spec.devices
            .redirs
            .extend((0..PORT_COUNT).map(|port| redirection_port(context.vmi.uid(), port)));
    }
    Ok(())
}

fn redirection_port(uid: &str, port: usize) -> RedirectedDevice {
    RedirectedDevice {
        kind: "unix".into(),
        bus: "usb".into(),
        source: RedirectedDeviceSource {
            mode: "bind".into(),
            path: format!("/var/run/kubevirt-private/{uid}/virt-usbredir-{port}"),
        },
    }
}
