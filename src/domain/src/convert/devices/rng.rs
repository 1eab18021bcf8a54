//! The entropy device.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, Rng, RngBackend, RngDriver};

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.devices.rng = context.devices().rng.as_ref().map(|_| Rng {
        model: context.virtio_model.into(),
        backend: Some(RngBackend {
            model: "random".into(),
            source: "/dev/urandom".into(),
        }),
        driver: context.protection.hides_memory().then(|| RngDriver {
            iommu: context.iommu(),
        }),
        ..Rng::default()
    });
    Ok(())
}
