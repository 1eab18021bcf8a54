//! Events of the VM, from libvirt and from the launcher's own tasks. The observer receives them.

use libvirt::Event;

/// An event of the VM, of which virt-handler may have to be notified.
#[derive(Debug, Clone, PartialEq)]
pub enum VmEvent {
    /// An event from libvirt.
    Libvirt(Event),
    /// KubeVirt's metadata changed.
    Metadata,
    /// A backup has ended; KubeVirt's metadata contain its result.
    BackupEnded,
    /// The guest agent reported something new that notifications contain.
    GuestInfo,
    /// The current state of the domain must be published: the connection to libvirt is back and events may have been
    /// lost, or the notification of the start was given up.
    Republish,
    /// The launcher is about to redefine the VM after a migration to this pod; libvirt's next event of a definition is
    /// not published.
    RedefinitionBegins,
    /// The definition announced by [`VmEvent::RedefinitionBegins`] has failed, so libvirt sends no event of it.
    RedefinitionFailed,
    /// QEMU's process has exited, and libvirt has sent no event of that.
    QemuExited,
    /// QEMU has no process, although the domain was on when it was last read: libvirt sends no event when it gives up
    /// a domain that it receives.
    QemuMissing,
    /// A start is under way: the QEMU process exists, its processors do not run yet.
    StartingUp,
    /// A start has failed; libvirt does not always send an event of that.
    StartFailed,
    /// The guest was asked to power off.
    PowerOffRequested,
    /// The launcher is about to end QEMU.
    Destroying,
    /// The launcher is about to end QEMU because the guest has migrated, which libvirt does not know.
    EndingAfterMigration,
}
