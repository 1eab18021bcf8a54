//! virt-launcher.
