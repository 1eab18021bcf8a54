//! The memory balloon.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, MemBalloon, MemBalloonDriver, Stats, on_off};

const REPORTING_DISABLED_ANNOTATION: &str = "kubevirt.io/free-page-reporting-disabled";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.devices.ballooning = Some(if context.devices().autoattach_mem_balloon == Some(false) {
        MemBalloon {
            model: "none".into(),
            ..MemBalloon::default()
        }
    } else {
        virtio_balloon(context)
    });
    Ok(())
}

fn virtio_balloon(context: &Context<'_>) -> MemBalloon {
    let period = context.options.mem_balloon_stats_period;
    MemBalloon {
        model: context.virtio_model.into(),
        stats: (period != 0).then(|| Stats {
            period: period.into(),
        }),
        driver: context.protection.hides_memory().then(|| MemBalloonDriver {
            iommu: context.iommu(),
        }),
        free_page_reporting: on_off(reports_free_pages(context)),
        ..MemBalloon::default()
    }
}

fn reports_free_pages(context: &Context<'_>) -> bool {
    !context.cluster.free_page_reporting_disabled
        && !context.is_high_performance()
        && context.vmi.annotation(REPORTING_DISABLED_ANNOTATION) != Some("true")
}
