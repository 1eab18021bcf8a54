//! libvirt's model names of virtio devices.

/// libvirt's model of a virtio device on a PCI bus.
pub(crate) fn pci_virtio_model(is_transitional: bool) -> &'static str {
    if is_transitional {
        "virtio-transitional"
    } else {
        "virtio-non-transitional"
    }
}
