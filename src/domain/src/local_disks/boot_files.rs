//! Files that the firmware hands to the guest.

use super::{DiskPreparation, LocalDiskError, contained};
use crate::spec::DomainSpec;
use crate::vmi::Vmi;

const IGNITION: &str = "kubevirt.io/ignitiondata";
/// How conversion passes the file on; its path follows.
const IGNITION_ARGUMENT: &str = "name=opt/com.coreos/config,file=";

pub(super) fn kernel_boot(
    vmi: &Vmi,
    spec: &DomainSpec,
) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let boot = vmi
        .spec
        .domain
        .firmware
        .as_ref()
        .and_then(|firmware| firmware.kernel_boot.as_ref());
    if boot.and_then(|boot| boot.container.as_ref()).is_none() {
        return Ok(None);
    }
    let artifacts: Vec<String> = [&spec.os.kernel, &spec.os.initrd]
        .into_iter()
        .filter(|path| !path.is_empty())
        .map(|path| contained("kernel boot", path))
        .collect::<Result<_, _>>()?;
    Ok((!artifacts.is_empty()).then_some(DiskPreparation::KernelBoot { artifacts }))
}

/// Data that QEMU is not told of need no file.
pub(super) fn ignition(
    vmi: &Vmi,
    spec: &DomainSpec,
) -> Result<Option<DiskPreparation>, LocalDiskError> {
    let arguments = spec.qemu_commandline.iter().flat_map(|line| &line.arg);
    let path = arguments
        .filter_map(|argument| argument.value.strip_prefix(IGNITION_ARGUMENT))
        .next();
    path.zip(vmi.annotation(IGNITION))
        .map(|(path, content)| {
            Ok(DiskPreparation::Ignition {
                path: contained("ignition data", path)?,
                content: content.to_owned(),
            })
        })
        .transpose()
}
