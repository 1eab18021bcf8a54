//! QEMU arguments that libvirt passes through: Ignition data for Fedora CoreOS guests, the firmware's log.

use kubevirt_api::vmi::Vmi;

use crate::convert::context::Context;
use crate::convert::error::ConvertError;
use crate::spec::{Arg, Commandline, DomainSpec};

const IGNITION: &str = "kubevirt.io/ignitiondata";

const FIRMWARE_LOG: &str = "/var/run/kubevirt-private/QEMUSeaBiosDebugPipe";
/// Firmware is logged above this verbosity.
const MAX_VERBOSITY_WITHOUT_LOG: u32 = 5;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if has_ignition(context.vmi) {
        pass(spec, ["-fw_cfg", &ignition_file(context)]);
    }
    if context.host.log_verbosity > MAX_VERBOSITY_WITHOUT_LOG
        && let Some(device) = context.architecture.firmware_log_device()
    {
        let file = format!("file,id=firmwarelog,path={FIRMWARE_LOG}");
        let device = format!("{device},chardev=firmwarelog");
        pass(spec, ["-chardev", &file, "-device", &device]);
    }
    Ok(())
}

fn ignition_file(context: &Context<'_>) -> String {
    let (namespace, name) = (context.vmi.namespace(), context.vmi.name());
    let directory = format!("{}/ignition-data", context.host.ephemeral_disk_dir);
    format!("name=opt/com.coreos/config,file={directory}/{namespace}/{name}/data.ign")
}

fn pass<'a>(spec: &mut DomainSpec, arguments: impl IntoIterator<Item = &'a str>) {
    let arguments = arguments.into_iter().map(|value| Arg {
        value: value.into(),
    });
    let commandline = spec
        .qemu_commandline
        .get_or_insert_with(Commandline::default);
    commandline.arg.extend(arguments);
}

fn has_ignition(vmi: &Vmi) -> bool {
    vmi.annotation(IGNITION)
        .is_some_and(|data| data.contains("ignition"))
}
