//! Arguments handed to QEMU as they are: Ignition data for Fedora CoreOS guests, the firmware's log.

use super::{Context, ConvertError};
use crate::spec::{Arg, Commandline, DomainSpec};
use crate::vmi::Vmi;

const IGNITION: &str = "kubevirt.io/ignitiondata";

const FIRMWARE_LOG: &str = "/var/run/kubevirt-private/QEMUSeaBiosDebugPipe";
/// Up to this verbosity firmware is not logged.
const QUIET: u32 = 5;

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if has_ignition(context.vmi) {
        pass(spec, ["-fw_cfg", &ignition_file(context)]);
    }
    if context.host.log_verbosity > QUIET {
        let file = format!("file,id=firmwarelog,path={FIRMWARE_LOG}");
        let device = "isa-debugcon,iobase=0x402,chardev=firmwarelog";
        pass(spec, ["-chardev", &file, "-device", device]);
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
