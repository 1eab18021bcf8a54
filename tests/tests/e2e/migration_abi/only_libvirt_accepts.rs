//! Changes that libvirt's ABI check accepts and the table does not.

use super::accepted_and_refused_edits::Edit;

/// What QEMU makes of the change when it reads the guest's state.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stream {
    /// It refuses the state.
    Refuses,
    /// The guest runs on, and finds another machine at once or at its next reset.
    Accepts,
}

const ARGUMENT: &str = "<qemu:env ";

#[rustfmt::skip]
pub(super) const REFUSED_HERE: &[(&str, Stream, Edit)] = &[
    ("a device of the command line goes", Stream::Refuses,
        &[("<qemu:arg value='-device'/>", ""), ("<qemu:arg value='virtio-rng-pci,addr=0x1c'/>", "")]),
    ("a device of the command line comes", Stream::Accepts,
        &[(ARGUMENT, "<qemu:arg value='-device'/><qemu:arg value='virtio-rng-pci,addr=0x1d'/><qemu:env ")]),
    ("a device of the command line moves", Stream::Refuses,
        &[("virtio-rng-pci,addr=0x1c", "virtio-rng-pci,addr=0x1d")]),
    ("a device's property", Stream::Accepts,
        &[(ARGUMENT, "<qemu:arg value='-global'/><qemu:arg value='ICH9-LPC.disable_s3=1'/><qemu:env ")]),
    ("the content of a fw_cfg entry", Stream::Accepts, &[("string=web", "string=db")]),
    ("a device's property by override", Stream::Refuses,
        &[("</domain>", "<qemu:override><qemu:device alias='net0'><qemu:frontend>\
            <qemu:property name='vectors' type='unsigned' value='0'/></qemu:frontend></qemu:device></qemu:override></domain>")]),
    ("a firmware of another kind", Stream::Refuses,
        &[("<loader type='rom'>/var/run/kubevirt/bios<", "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd<")]),
    ("no option ROM", Stream::Refuses, &[("<rom file='/usr/lib/ipxe/qemu/efi-virtio.rom'/>", "<rom enabled='no'/>")]),
    ("an option ROM without a BAR", Stream::Refuses,
        &[("<rom file='/usr/lib/ipxe/qemu/efi-virtio.rom'/>", "<rom bar='off' file='/usr/lib/ipxe/qemu/efi-virtio.rom'/>")]),
    ("a virtio feature of a disk", Stream::Accepts, &[(" queues='1'", " queues='1' event_idx='off'")]),
    ("the clock", Stream::Accepts, &[("<clock offset='utc'/>", "<clock offset='localtime'/>")]),
    ("the boot menu", Stream::Accepts, &[("<boot dev='hd'/>", "<boot dev='hd'/><bootmenu enable='yes'/>")]),
    ("the power management", Stream::Accepts, &[("</on_crash>", "</on_crash><pm><suspend-to-mem enabled='no'/></pm>")]),
    ("a crypto device comes", Stream::Refuses,
        &[("</devices>", "<crypto model='virtio' type='qemu'><backend model='builtin'/></crypto></devices>")]),
    ("the chassis of a root port", Stream::Accepts, &[("<target chassis='1' port='0x10'/>", "<target chassis='9' port='0x10'/>")]),
    ("the resolution", Stream::Accepts, &[("primary='yes'/>", "primary='yes'><resolution x='800' y='600'/></model>")]),
];
