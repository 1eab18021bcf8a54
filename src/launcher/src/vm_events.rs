//! What happens to the VM, from libvirt and from the launcher's own tasks; the observer receives it.

use libvirt::Event;

/// Something that happened to the VM and that virt-handler may have to know.
#[derive(Debug, Clone, PartialEq)]
pub enum VmEvent {
    /// An event of libvirt's.
    Libvirt(Event),
    /// KubeVirt's metadata changed.
    Metadata,
    /// A backup has ended; the metadata say how.
    BackupEnded,
    /// The guest agent reported something new that notifications contain.
    GuestInfo,
    /// The present state of the domain must be notified: the connection to libvirt is back and what happened meanwhile
    /// is not known, or the notification of the start was given up.
    Republish,
    /// The launcher is about to redefine the VM after a migration to this pod: libvirt's event of that is not published.
    Redefining,
    /// The definition announced by [`VmEvent::Redefining`] has failed, and no event of it comes.
    NotRedefined,
    /// QEMU's process ended, and libvirt has sent no event for it.
    QemuEnded,
    /// There is no process of QEMU, although the domain was on when it was read last: libvirt sends no event when it gives
    /// up a domain that it receives.
    QemuMissing,
    /// A start is under way: the QEMU process exists, its processors do not run yet.
    StartingUp,
    /// A start has failed; libvirt does not always send an event for it.
    StartFailed,
    /// The guest was asked to power off.
    GuestAsked,
    /// The launcher is about to end QEMU.
    Destroying,
    /// The launcher is about to end QEMU because the guest has migrated, which libvirt does not know.
    Departing,
}
