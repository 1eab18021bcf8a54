//! Arguments handed to QEMU as they are: Ignition data for Fedora CoreOS guests.

use super::{Context, ConvertError};
use crate::spec::{Arg, Commandline, DomainSpec};
use crate::vmi::Vmi;

pub(super) const IGNITION: &str = "kubevirt.io/ignitiondata";

pub(super) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if !has_ignition(context.vmi) {
        return Ok(());
    }
    let (namespace, name) = (context.vmi.namespace(), context.vmi.name());
    let directory = format!("{}/ignition-data", context.host.ephemeral_disk_dir);
    let file = format!("name=opt/com.coreos/config,file={directory}/{namespace}/{name}/data.ign");
    let arg = |value: &str| Arg {
        value: value.into(),
    };
    let commandline = spec
        .qemu_commandline
        .get_or_insert_with(Commandline::default);
    commandline.arg.extend([arg("-fw_cfg"), arg(&file)]);
    Ok(())
}

pub(super) fn has_ignition(vmi: &Vmi) -> bool {
    vmi.annotation(IGNITION)
        .is_some_and(|data| data.contains("ignition"))
}
