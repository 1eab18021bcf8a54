//! Required files of a direct kernel boot, and of Ignition.

use kubevirt_api::vmi::Vmi;

use crate::libvirt_spec::DomainSpec;
use crate::required_files::error::RequiredFileError;
use crate::required_files::path_check;
use crate::required_files::required_file::RequiredFile;

const IGNITION_ANNOTATION: &str = "kubevirt.io/ignitiondata";
/// The start of the QEMU argument that conversion adds, before the path.
const IGNITION_ARGUMENT_PREFIX: &str = "name=opt/com.coreos/config,file=";

/// Kernel and initrd, if the VMI boots them from a container image.
pub(crate) fn kernel_boot(
    vmi: &Vmi,
    spec: &DomainSpec,
) -> Result<Option<RequiredFile>, RequiredFileError> {
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
        .map(|path| path_check::check_path("kernel boot", path))
        .collect::<Result<_, _>>()?;
    Ok((!artifacts.is_empty()).then_some(RequiredFile::KernelBoot { artifacts }))
}

/// The file with Ignition data, if QEMU has an argument for it.
pub(crate) fn ignition(
    vmi: &Vmi,
    spec: &DomainSpec,
) -> Result<Option<RequiredFile>, RequiredFileError> {
    let arguments = spec.qemu_commandline.iter().flat_map(|line| &line.arg);
    let path = arguments
        .filter_map(|argument| argument.value.strip_prefix(IGNITION_ARGUMENT_PREFIX))
        .next();
    path.zip(vmi.annotation(IGNITION_ANNOTATION))
        .map(|(path, content)| {
            Ok(RequiredFile::Ignition {
                path: path_check::check_path("ignition data", path)?,
                content: content.to_owned(),
            })
        })
        .transpose()
}
