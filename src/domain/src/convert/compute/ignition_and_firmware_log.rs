//! QEMU arguments that libvirt passes through (`<qemu:commandline>`), for Ignition data of Fedora CoreOS guests and for
//! the firmware's log.

use kubevirt_api::vmi::Vmi;

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{Arg, Commandline, DomainSpec};

const IGNITION_ANNOTATION: &str = "kubevirt.io/ignitiondata";

const PRIVATE_DIR: &str = "/var/run/kubevirt-private";
/// The named pipe into which QEMU writes the firmware's log, in KubeVirt's private directory.
pub const FIRMWARE_LOG: &str = "QEMUSeaBiosDebugPipe";
/// The firmware's messages are logged above this verbosity.
const MAX_VERBOSITY_WITHOUT_LOG: u32 = 5;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if has_ignition(context.vmi) {
        add_arguments(spec, ["-fw_cfg", &ignition_file(context)]);
    }
    if is_firmware_logged(context.host.log_verbosity)
        && let Some(device) = context.architecture.firmware_log_device()
    {
        let file = format!("file,id=firmwarelog,path={PRIVATE_DIR}/{FIRMWARE_LOG}");
        let device = format!("{device},chardev=firmwarelog");
        add_arguments(spec, ["-chardev", &file, "-device", &device]);
    }
    Ok(())
}

/// Whether the firmware's messages are logged at this verbosity.
pub fn is_firmware_logged(verbosity: u32) -> bool {
    verbosity > MAX_VERBOSITY_WITHOUT_LOG
}

fn ignition_file(context: &Context<'_>) -> String {
    let (namespace, name) = (context.vmi.namespace(), context.vmi.name());
    let directory = format!("{}/ignition-data", context.host.ephemeral_disk_dir);
    format!("name=opt/com.coreos/config,file={directory}/{namespace}/{name}/data.ign")
}

fn add_arguments<'a>(spec: &mut DomainSpec, arguments: impl IntoIterator<Item = &'a str>) {
    let arguments = arguments.into_iter().map(|value| Arg {
        value: value.into(),
    });
    let commandline = spec
        .qemu_commandline
        .get_or_insert_with(Commandline::default);
    commandline.arg.extend(arguments);
}

fn has_ignition(vmi: &Vmi) -> bool {
    vmi.annotation(IGNITION_ANNOTATION)
        .is_some_and(|data| data.contains("ignition"))
}
