//! The serial console, and the channels of guest agent and metrics.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{
    Channel, ChannelSource, ChannelTarget, Console, ConsoleTarget, DomainSpec, Serial, SerialLog,
    SerialSource, SerialTarget,
};

const SERIAL_PORT: u64 = 0;
const GUEST_AGENT_CHANNEL: &str = "org.qemu.guest_agent.0";
const METRICS_CHANNEL: &str = "org.github.vhostmd.1";
const METRICS_SOCKET: &str =
    "/var/run/kubevirt-private/downwardmetrics-channel/downwardmetrics.sock";

pub(crate) fn add_channels(
    context: &Context<'_>,
    spec: &mut DomainSpec,
) -> Result<(), ConvertError> {
    let channels = &mut spec.devices.channels;
    // libvirt chooses the path if there is no source.
    channels.push(channel(GUEST_AGENT_CHANNEL, None));
    if context.devices().downward_metrics.is_some() {
        let socket = ChannelSource {
            mode: "bind".into(),
            path: METRICS_SOCKET.into(),
        };
        channels.push(channel(METRICS_CHANNEL, Some(socket)));
    }
    Ok(())
}

fn channel(name: &str, source: Option<ChannelSource>) -> Channel {
    Channel {
        kind: "unix".into(),
        source,
        target: Some(ChannelTarget {
            name: name.into(),
            kind: "virtio".into(),
            ..ChannelTarget::default()
        }),
    }
}

pub(crate) fn add_serial(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    if context.devices().autoattach_serial_console == Some(false) {
        return Ok(());
    }
    let socket = format!(
        "/var/run/kubevirt-private/{}/virt-serial{SERIAL_PORT}",
        context.vmi.uid()
    );
    spec.devices.consoles.push(Console {
        kind: "pty".into(),
        target: Some(ConsoleTarget {
            kind: Some("serial".into()),
            port: Some(SERIAL_PORT),
        }),
        ..Console::default()
    });
    spec.devices.serials.push(Serial {
        kind: "unix".into(),
        target: Some(SerialTarget {
            port: Some(SERIAL_PORT),
        }),
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
