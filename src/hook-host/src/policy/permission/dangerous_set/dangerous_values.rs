//! Predicates of the values for which rules of the dangerous set apply.

use std::net::IpAddr;

/// Whether an action on a crash writes the guest's memory to a file.
pub(super) fn dumps_core(action: &str) -> bool {
    action.trim().starts_with("coredump")
}

/// Whether a disk of this type is something else than a file or block device.
pub(super) fn is_not_file_or_block(kind: &str) -> bool {
    !matches!(kind, "file" | "block")
}

/// Whether a TPM backend of this type is a device of the host.
pub(super) fn is_host_tpm(kind: &str) -> bool {
    kind != "emulator"
}

/// Whether a character device of this type connects to the host, and not only to a buffer or terminal of its own.
pub(super) fn is_host_character_device(kind: &str) -> bool {
    !matches!(
        kind,
        "null" | "pty" | "vc" | "spicevmc" | "spiceport" | "qemu-vdagent"
    )
}

pub(super) fn is_host_display(kind: &str) -> bool {
    !matches!(kind, "vnc" | "spice")
}

pub(super) fn is_host_audio(kind: &str) -> bool {
    !matches!(kind, "none" | "spice")
}

/// Whether libvirt runs a process of its own for a video driver of this name.
pub(super) fn is_out_of_process(driver: &str) -> bool {
    driver != "qemu"
}

/// Whether the guest sees the host's SMBIOS in this mode.
pub(super) fn is_host_smbios(mode: &str) -> bool {
    !matches!(mode, "emulate" | "sysinfo")
}

/// Whether a time zone is a path, and not a name below the host's directory of time zones.
pub(super) fn is_timezone_path(name: &str) -> bool {
    name.starts_with(['/', ':']) || name.contains("..") || name.contains('\\')
}

/// Whether a keymap is a path: QEMU tries the name as it is, in its working directory, before its directory of keymaps.
pub(super) fn is_keymap_file(name: &str) -> bool {
    name.contains('/') || is_timezone_path(name)
}

/// Whether a channel's name makes the path of its socket lead out of libvirt's directory.
pub(super) fn leads_out_of_directory(name: &str) -> bool {
    name.contains('/') || matches!(name, "." | "..")
}

/// Whether QEMU reads a value as more than one of its comma-separated options.
pub(super) fn has_several_options(value: &str) -> bool {
    value.contains(',')
}

/// Whether a display listens on something else than the loopback address, which only the pod reaches.
pub(super) fn is_not_loopback(value: &str) -> bool {
    let address = value.parse::<IpAddr>();
    value != "localhost" && !address.is_ok_and(|address| address.is_loopback())
}

/// Whether a `<sysinfo>` of this type is for programs in the guest, as `fwcfg` is.
pub(super) fn is_not_smbios(kind: &str) -> bool {
    kind != "smbios"
}

/// Whether programs in the guest take an SMBIOS value for an instruction: `io.systemd.credential:NAME=...` and others of
/// systemd, `ds=nocloud;s=http://...` of cloud-init, and the names of clouds in [`CLOUD_NAMES`].
pub(super) fn instructs_guest(value: &str) -> bool {
    let is_cloud = || {
        let value = value.to_ascii_lowercase();
        CLOUD_NAMES.iter().any(|name| value.contains(name))
    };
    value.trim_start().starts_with("io.systemd.") || value.contains("ds=") || is_cloud()
}

/// The names, in lower case, by which cloud-init recognises a cloud in SMBIOS: as the product, manufacturer or serial
/// number of the system, or the asset tag of its chassis. It then takes the configuration from that cloud's metadata
/// service, which is at a link-local address, so that whoever answers there in the pod's network is root in the guest.
/// They are those of cloud-init's `tools/ds-identify` and `cloudinit/sources` in August 2026. Each may be a part of the
/// value, as some are there.
pub(super) const CLOUD_NAMES: &[&str] = &[
    // Azure
    "7783-7084-3265-9085-8269-3286-77",
    "3ds outscale",
    "akamai",
    "alibaba cloud ecs",
    "brightbox.com",
    "cloudcix",
    "cloudsigma",
    "cloudstack",
    "digitalocean",
    "e24cloud",
    "exoscale",
    "google compute engine",
    "googlecloud-",
    "hetzner",
    "huaweicloud",
    "linode",
    "nwcs",
    "openstack compute",
    "openstack nova",
    "opentelekomcloud",
    "oraclecloud.com",
    "samsung cloud platform",
    "sap ccloud vm",
    "scaleway",
    "smartdc",
    "tilaa",
    "upcloud",
    "vultr",
    "zstack.io",
];
