//! The vsock device.

use super::context::yes_no;
use super::{Context, ConvertError};
use crate::spec::{Cid, DomainSpec, Vsock};

/// Where context ids are the pod's own, every guest has the first free one.
const LOCAL_CID: u32 = 3;

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let cid = context.vmi.status.vsock_cid;
    let cid = cid.map(|cid| match context.host.vsock_namespaces {
        true => LOCAL_CID,
        false => cid,
    });
    spec.devices.vsock = cid.map(|address| Vsock {
        model: "virtio-non-transitional".into(),
        cid: Cid {
            auto: yes_no(false),
            address,
        },
    });
    Ok(())
}
