//! The vsock device.

use super::context::yes_no;
use super::{Context, ConvertError};
use crate::spec::{Cid, DomainSpec, Vsock};

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.devices.vsock = context.vmi.status.vsock_cid.map(|address| Vsock {
        model: "virtio-non-transitional".into(),
        cid: Cid {
            auto: yes_no(false),
            address,
        },
    });
    Ok(())
}
