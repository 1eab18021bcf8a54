//! The VNC display and its video card.

use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::libvirt_spec::{DomainSpec, Graphics, GraphicsListen, Video, VideoModel};

const HEADS: u64 = 1;
/// Video memory in KiB.
const VRAM_KIB: u64 = 16_384;

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    // As in KubeVirt: the QEMU of another architecture may lack video cards.
    if !is_attached(context) || context.is_cross_architecture() {
        return Ok(());
    }
    spec.devices.graphics.push(Graphics {
        kind: "vnc".into(),
        listen: Some(GraphicsListen {
            kind: "socket".into(),
            socket: format!("/var/run/kubevirt-private/{}/virt-vnc", context.vmi.uid()),
            ..GraphicsListen::default()
        }),
        ..Graphics::default()
    });
    spec.devices.video.push(Video {
        model: video(context),
    });
    Ok(())
}

/// Whether the guest has a display.
pub(crate) fn is_attached(context: &Context<'_>) -> bool {
    context.devices().autoattach_graphics_device != Some(false)
}

fn video(context: &Context<'_>) -> VideoModel {
    let model = match &context.devices().video {
        Some(video) => VideoModel {
            kind: video.kind.clone(),
            vram: Some(VRAM_KIB),
            ..VideoModel::default()
        },
        None => {
            let prefers_bochs = context.cluster.bochs_display_for_efi_guests;
            context
                .architecture
                .default_video(is_efi(context) && prefers_bochs)
        }
    };
    VideoModel {
        heads: Some(HEADS),
        ..model
    }
}

fn is_efi(context: &Context<'_>) -> bool {
    let firmware = context.vmi.spec.domain.firmware.as_ref();
    firmware
        .and_then(|firmware| firmware.bootloader.as_ref())
        .is_some_and(|bootloader| bootloader.efi.is_some())
}
