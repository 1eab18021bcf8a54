//! libvirt.
