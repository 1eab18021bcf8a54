//! The serial console and the guest agent's channel.

use super::{Context, ConvertError};
use crate::spec::{
    Channel, ChannelTarget, Console, ConsoleTarget, DomainSpec, Serial, SerialLog, SerialSource,
    SerialTarget,
};

const PORT: u64 = 0;

pub(super) fn add_channels(
    _context: &Context<'_>,
    spec: &mut DomainSpec,
) -> Result<(), ConvertError> {
    // Without a source libvirt chooses the path.
    spec.devices.channels.push(Channel {
        kind: "unix".into(),
        source: None,
        target: Some(ChannelTarget {
            name: "org.qemu.guest_agent.0".into(),
            kind: "virtio".into(),
            ..ChannelTarget::default()
        }),
    });
    Ok(())
}

pub(super) fn add_serial(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.devices().autoattach_serial_console == Some(false) {
        return Ok(());
    }
    let socket = format!(
        "/var/run/kubevirt-private/{}/virt-serial{PORT}",
        context.vmi.uid()
    );
    spec.devices.consoles.push(Console {
        kind: "pty".into(),
        target: Some(ConsoleTarget {
            kind: Some("serial".into()),
            port: Some(PORT),
        }),
        ..Console::default()
    });
    spec.devices.serials.push(Serial {
        kind: "unix".into(),
        target: Some(SerialTarget { port: Some(PORT) }),
        log: is_logged(context).then(|| SerialLog {
            file: format!("{socket}-log"),
            append: "on".into(),
        }),
        source: Some(SerialSource {
            mode: "bind".into(),
            path: socket,
        }),
        ..Serial::default()
    });
    Ok(())
}

fn is_logged(context: &Context<'_>) -> bool {
    context
        .devices()
        .log_serial_console
        .unwrap_or(!context.cluster.serial_console_log_disabled)
}
