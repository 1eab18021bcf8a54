//! The configuration files of the pod's libvirt daemons.

use std::fs;

use anyhow::Result;

use super::Pod;

/// `qemu.conf` in KubeVirt's image.
const QEMU_CONF: &str = "stdio_handler = \"logd\"\nvnc_listen = \"0.0.0.0\"\nvnc_tls = 0\nvnc_sasl = 0\n\
    user = \"qemu\"\ngroup = \"qemu\"\ndynamic_ownership = 1\nremember_owner = 0\nnamespaces = [ ]\n\
    cgroup_controllers = [ ]\n";
/// `virtqemud.conf` in KubeVirt's image.
const VIRTQEMUD_CONF: &str = "listen_tls = 0\nlisten_tcp = 0\nlog_outputs = \"1:stderr\"\n";

impl Pod {
    /// Writes the files as they are in KubeVirt's image.
    pub(super) fn write_daemon_configuration(&self) -> Result<()> {
        let root = self.directory.path();
        fs::write(root.join("etc-libvirt/qemu.conf"), QEMU_CONF)?;
        Ok(fs::write(
            root.join("etc-libvirt/virtqemud.conf"),
            VIRTQEMUD_CONF,
        )?)
    }

    /// Lets QEMU write its output to files itself, for a libvirt without virtlogd.
    pub fn disable_virtlogd(&self) -> Result<()> {
        let path = self.directory.path().join("etc-libvirt/qemu.conf");
        let (logd, file) = ("stdio_handler = \"logd\"", "stdio_handler = \"file\"");
        Ok(fs::write(path, QEMU_CONF.replace(logd, file))?)
    }

    /// Sets the host UUID of the pod's libvirt, as on another node: libvirt does not migrate a VM within one host. Must
    /// be called before the launcher starts.
    pub fn set_host_uuid(&self, uuid: &str) -> Result<()> {
        let path = self.directory.path().join("etc-libvirt/virtqemud.conf");
        Ok(fs::write(
            path,
            format!("{VIRTQEMUD_CONF}host_uuid = \"{uuid}\"\n"),
        )?)
    }
}
