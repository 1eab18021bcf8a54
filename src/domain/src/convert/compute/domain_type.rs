//! The domain type: the hypervisor, or emulation if there is none and emulation is allowed, or if the guest has another
//! architecture than the node.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::DomainSpec;

/// Where QEMU's programs are in the launcher's image.
const EMULATORS_DIR: &str = "/usr/bin";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.is_cross_architecture() {
        spec.kind = "qemu".into();
        spec.devices.emulator = emulator(context)?;
        return Ok(());
    }
    let (native, missing) = match context.host.hypervisor.as_str() {
        "hyperv-direct" => ("hyperv", "MSHV not present"),
        _ => ("kvm", context.behaviour().kvm_missing),
    };
    spec.kind = match (context.host.kvm_available, context.host.allow_emulation) {
        (true, _) => native.into(),
        (false, true) => "qemu".into(),
        (false, false) => return Err(ConvertError::invalid(missing)),
    };
    Ok(())
}

/// The program that emulates the guest's architecture. The images of KubeVirt's launcher have only the node's.
fn emulator(context: &Context<'_>) -> Result<String, ConvertError> {
    let program = format!("qemu-system-{}", context.architecture.libvirt_name());
    let path = format!("{EMULATORS_DIR}/{program}");
    match &context.host.emulators {
        Some(installed) if !installed.contains(&program) => Err(ConvertError::invalid(format!(
            "emulator binary {path} not found in the launcher's image, which emulates guests of {} with it",
            context.architecture.name()
        ))),
        _ => Ok(path),
    }
}
