//! USB ports redirected from clients.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, RedirectedDevice, RedirectedDeviceSource};

/// How many devices clients can redirect at once.
const PORTS: usize = 4;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.devices().client_passthrough.is_some() {
        spec.devices
            .redirs
            .extend((0..PORTS).map(|port| redirected(context.vmi.uid(), port)));
    }
    Ok(())
}

fn redirected(uid: &str, port: usize) -> RedirectedDevice {
    RedirectedDevice {
        kind: "unix".into(),
        bus: "usb".into(),
        source: RedirectedDeviceSource {
            mode: "bind".into(),
            path: format!("/var/run/kubevirt-private/{uid}/virt-usbredir-{port}"),
        },
    }
}
