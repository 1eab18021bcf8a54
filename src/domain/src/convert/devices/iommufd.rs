//! Host devices opened through an iommufd that a device plugin handed over.

use crate::convert::context::Context;
use crate::convert::error::ConvertError;
use crate::spec::{DomainSpec, IommuFd};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.iommufd = context.host.iommufd.then(|| IommuFd {
        enabled: "yes".into(),
        fd_group: "iommu".into(),
        ..IommuFd::default()
    });
    Ok(())
}
