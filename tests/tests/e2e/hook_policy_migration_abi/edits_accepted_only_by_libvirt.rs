//! Edits that libvirt's ABI check accepts and the table refuses.

use super::accepted_and_refused_edits::Edit;

/// The result of restoring the domain with the edit in QEMU.
#[derive(Debug, Clone, Copy)]
pub(super) enum RestoreResult {
    /// QEMU refuses the saved state.
    Fails,
    /// The guest continues, and has a different machine at once or after its next reset.
    Succeeds,
}

const ENV_TAG: &str = "<qemu:env ";

#[rustfmt::skip]
pub(super) const REFUSED_EDITS: &[(&str, RestoreResult, Edit)] = &[
    ("a device of the command line goes", RestoreResult::Fails,
        &[("<qemu:arg value='-device'/>", ""), ("<qemu:arg value='virtio-rng-pci,addr=0x1c'/>", "")]),
    ("a device of the command line comes", RestoreResult::Succeeds,
        &[(ENV_TAG, "<qemu:arg value='-device'/><qemu:arg value='virtio-rng-pci,addr=0x1d'/><qemu:env ")]),
    ("a device of the command line moves", RestoreResult::Fails,
        &[("virtio-rng-pci,addr=0x1c", "virtio-rng-pci,addr=0x1d")]),
    ("a device's property", RestoreResult::Succeeds,
        &[(ENV_TAG, "<qemu:arg value='-global'/><qemu:arg value='ICH9-LPC.disable_s3=1'/><qemu:env ")]),
    ("the content of a fw_cfg entry", RestoreResult::Succeeds, &[("string=web", "string=db")]),
    ("a device's property by override", RestoreResult::Fails,
        &[("</domain>", "<qemu:override><qemu:device alias='net0'><qemu:frontend>\
            <qemu:property name='vectors' type='unsigned' value='0'/></qemu:frontend></qemu:device></qemu:override></domain>")]),
    ("a firmware of another kind", RestoreResult::Fails,
        &[("<loader type='rom'>/var/run/kubevirt/bios<", "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd<")]),
    ("no option ROM", RestoreResult::Fails, &[("<rom file='/var/run/kubevirt/efi-virtio.rom'/>", "<rom enabled='no'/>")]),
    ("an option ROM without a BAR", RestoreResult::Fails,
        &[("<rom file='/var/run/kubevirt/efi-virtio.rom'/>", "<rom bar='off' file='/var/run/kubevirt/efi-virtio.rom'/>")]),
    ("a virtio feature of a disk", RestoreResult::Succeeds, &[(" queues='1'", " queues='1' event_idx='off'")]),
    ("the clock", RestoreResult::Succeeds, &[("<clock offset='utc'/>", "<clock offset='localtime'/>")]),
    ("the boot menu", RestoreResult::Succeeds, &[("<boot dev='hd'/>", "<boot dev='hd'/><bootmenu enable='yes'/>")]),
    ("the power management", RestoreResult::Succeeds, &[("</on_crash>", "</on_crash><pm><suspend-to-mem enabled='no'/></pm>")]),
    ("a crypto device comes", RestoreResult::Fails,
        &[("</devices>", "<crypto model='virtio' type='qemu'><backend model='builtin'/></crypto></devices>")]),
    ("the chassis of a root port", RestoreResult::Succeeds, &[("<target chassis='1' port='0x10'/>", "<target chassis='9' port='0x10'/>")]),
    ("the resolution", RestoreResult::Succeeds, &[("primary='yes'/>", "primary='yes'><resolution x='800' y='600'/></model>")]),
];
