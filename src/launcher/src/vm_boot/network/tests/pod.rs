//! A pod for tests, in a network namespace.

use std::fs;

use domain::convert::convert;
use domain::host_facts::HostFacts;
use domain::libvirt_spec::Interface;
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::rerun_in_namespaces;
use crate::vm_boot::network::PodNetworkSetup;
use crate::vm_boot::network::dhcp::DhcpServers;

/// The links of a pod as virt-handler makes them for every binding.
const COMMON_LINKS: &str = "
    ip link set lo up
    ip link add eth0 type veth peer name outside
    ip link set eth0 address 02:00:00:ab:cd:ef mtu 1450
    ip link set eth0 up
    ip link add k6t-eth0 type bridge
    ip link set k6t-eth0 address 02:00:00:00:00:00
    ip link set k6t-eth0 up
    ip link add guest0 type veth peer name tap0
    ip link set tap0 master k6t-eth0
    ip link set tap0 up";

/// The network setup of a pod, with its files in a temporary directory.
pub(super) struct Pod {
    network: PodNetworkSetup,
    pub(super) directory: TempDir,
}

impl Pod {
    /// Makes the common links, and runs the shell commands `links`.
    pub(super) fn new(links: &str) -> Pod {
        rerun_in_namespaces::shell(COMMON_LINKS);
        rerun_in_namespaces::shell(links);
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let network = PodNetworkSetup {
            private: directory.path().to_owned(),
            resolv_conf: file(
                "resolv.conf",
                "nameserver 10.96.0.10\nnameserver fd00::10\nsearch ns.svc.c.local\n",
            ),
            hostname: file("hostname", "vm1\n"),
            servers: DhcpServers::default(),
        };
        Pod { network, directory }
    }

    /// Sets up the network of a VMI with this interface, and returns the domain's interface.
    pub(super) async fn connect(&self, interface: Value) -> Result<Interface, String> {
        let vmi = json!({
            "metadata": {"name": "vm1", "namespace": "default", "uid": "u"},
            "spec": {
                "subdomain": "sub",
                "domain": {"devices": {"interfaces": [interface]}},
                "networks": [{"name": "default", "pod": {}}],
            },
        });
        let vmi = Vmi::from_json(vmi.to_string().as_bytes()).unwrap();
        let options = Options::default();
        let mut spec = convert(&vmi, &options, &HostFacts::default()).unwrap();
        let connected = self.network.connect(&vmi, &options, &mut spec).await;
        connected.map_err(|error| error.to_string())?;
        Ok(spec.devices.interfaces.remove(0))
    }

    /// Writes the file in which virt-handler leaves the pod's address.
    pub(super) fn write_vif_cache(&self, content: impl AsRef<[u8]>) {
        fs::write(self.directory.path().join("vif-cache-eth0.json"), content).unwrap();
    }
}
