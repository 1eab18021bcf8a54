//! Adds a disk that another process on the node serves over a vhost-user socket (SPDK, for one),
//! and the shared memory that it needs.

use hooks_sdk::{Description, Domain, Element, Hook, HookPoint, Result, Vmi, veto};

/// The socket, as QEMU's container sees it.
const SOCKET: &str = "vhost-user.example.com/socket";
/// The disk's name in the domain.
const TARGET: &str = "vdz";

/// The hook.
#[derive(Debug, Default)]
pub struct VhostUserDisk;

impl Hook for VhostUserDisk {
    const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::OnDefineDomain];

    fn describe(description: Description) -> Description {
        description.with_paths([
            "/domain/devices/disk[@type='vhostuser']/**",
            "/domain/devices/disk[@type='vhostuser']/driver/@type",
            "/domain/devices/disk[@type='vhostuser']/source/**",
            "/domain/memoryBacking/**",
            "/domain/memoryBacking/source/**",
        ])
    }

    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let Some(socket) = vmi.annotation(SOCKET) else {
            return Ok(());
        };
        if !socket.starts_with('/') {
            return Err(veto(format!(
                "{SOCKET}, {socket:?}, is not an absolute path"
            )));
        }
        domain.insert_if_absent(&format!("devices/disk[target/@dev='{TARGET}']"), || {
            disk(socket)
        })?;
        // The other process reads and writes the guest's memory. Huge pages can be shared as they are.
        if domain.find("memoryBacking/hugepages")?.is_none() {
            domain.set("memoryBacking/source/@type", "memfd")?;
        }
        domain.set("memoryBacking/access/@mode", "shared")?;
        Ok(())
    }
}

fn disk(socket: &str) -> Element {
    let reconnect = Element::new("reconnect").with_attr("enabled", "yes");
    let source = Element::new("source")
        .with_attr("type", "unix")
        .with_attr("path", socket);
    let target = Element::new("target").with_attr("dev", TARGET);
    let driver = Element::new("driver").with_attr("name", "qemu");
    Element::new("disk")
        .with_attr("type", "vhostuser")
        .with_attr("device", "disk")
        .with_child(driver.with_attr("type", "raw"))
        .with_child(source.with_child(reconnect.with_attr("timeout", "10")))
        .with_child(target.with_attr("bus", "virtio"))
}

hooks_sdk::export!(VhostUserDisk);
