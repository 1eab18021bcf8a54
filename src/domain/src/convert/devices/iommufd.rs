//! The iommufd from a device plugin, through which QEMU opens host devices.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, IommuFd};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.iommufd = context.host.iommufd.then(|| IommuFd {
        enabled: "yes".into(),
        fd_group: "iommu".into(),
        ..IommuFd::default()
    });
    Ok(())
}
