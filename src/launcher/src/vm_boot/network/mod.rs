//! Sets up the guest's network: attaches its interfaces to the tap devices that virt-handler made, and serves DHCP.
//!
//! This is KubeVirt's phase 2 of the network setup. [`domain::pod_network_and_dhcp`] decides; this module reads the
//! files, looks up the links and opens the sockets. It runs before the hooks see the domain.

mod dhcp;
mod dhcp_config_sources;
mod error;
mod pod_links;

use std::path::{Path, PathBuf};

use domain::libvirt_spec::{DomainSpec, Interface};
use domain::pod_network_and_dhcp::{Binding, Lease, Tap, taps};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

pub(super) use error::NetworkError;

use dhcp::{DhcpConfig, DhcpResponders, DhcpServers};
use pod_links::{Links, PodLink};

/// Sets up the network of one pod's guest.
pub struct PodNetworkSetup {
    /// The directory in which virt-handler leaves the pod's addresses.
    private: PathBuf,
    resolv_conf: PathBuf,
    hostname: PathBuf,
    servers: DhcpServers,
}

impl PodNetworkSetup {
    /// KubeVirt's directories; `private` is `/var/run/kubevirt-private`.
    pub fn kubevirt(private: &Path) -> PodNetworkSetup {
        PodNetworkSetup {
            private: private.to_owned(),
            resolv_conf: "/etc/resolv.conf".into(),
            hostname: "/proc/sys/kernel/hostname".into(),
            servers: DhcpServers::default(),
        }
    }

    /// Attaches the domain's interfaces, and serves their DHCP until this is dropped. May be repeated.
    ///
    /// # Errors
    /// [`NetworkError`] naming the interface, and the link or the file.
    pub async fn connect(
        &self,
        vmi: &Vmi,
        options: &Options,
        spec: &mut DomainSpec,
    ) -> Result<(), NetworkError> {
        let taps = taps(vmi, options)?;
        if taps.is_empty() {
            return Ok(());
        }
        let links = Links::open().map_err(NetworkError::Netlink)?;
        for tap in &taps {
            self.connect_one(vmi, tap, &links, spec).await?;
        }
        Ok(())
    }

    /// Attaches one interface of a running VM, for which virt-handler has made the links, and serves its DHCP.
    ///
    /// # Errors
    /// As [`PodNetworkSetup::connect`].
    pub async fn connect_hotplugged(
        &self,
        vmi: &Vmi,
        options: &Options,
        interface: Interface,
    ) -> Result<Interface, NetworkError> {
        let mut taps = taps(vmi, options)?.into_iter();
        let name = interface.alias.as_ref().map(|alias| alias.name.clone());
        let Some(tap) = taps.find(|tap| Some(&tap.interface) == name.as_ref()) else {
            return Ok(interface);
        };
        let links = Links::open().map_err(NetworkError::Netlink)?;
        let mut spec = DomainSpec::default();
        spec.devices.interfaces.push(interface.clone());
        self.connect_one(vmi, &tap, &links, &mut spec).await?;
        Ok(spec.devices.interfaces.pop().unwrap_or(interface))
    }

    async fn connect_one(
        &self,
        vmi: &Vmi,
        tap: &Tap,
        links: &Links,
        spec: &mut DomainSpec,
    ) -> Result<(), NetworkError> {
        let pod = links.first_of(&tap.pod_interfaces).await?;
        let pod = pod.ok_or_else(|| no_link(tap, &tap.pod_interfaces.join(" or ")))?;
        let device = tap.device(&pod.link.name);
        let device = match links.by_name(&device).await? {
            Some(_) => device,
            None => pod.link.name.clone(),
        };
        tap.attach(spec, &pod.link, &device)?;
        if let Some((lease, mtu)) = self.lease(tap, &pod, links).await? {
            let config = DhcpConfig {
                lease,
                mtu,
                hostname: dhcp_config_sources::read_hostname(&self.hostname).await?,
                dns: (dhcp_config_sources::read_dns(&self.resolv_conf).await?)
                    .with_subdomain(&vmi.spec.subdomain),
            };
            self.serve(tap, &pod, &config, links).await?;
        }
        Ok(())
    }

    /// The guest's lease and MTU; `None` if a network binding plugin or another server answers DHCP.
    async fn lease(
        &self,
        tap: &Tap,
        pod: &PodLink,
        links: &Links,
    ) -> Result<Option<(Lease, u32)>, NetworkError> {
        match &tap.binding {
            Binding::Plugin => Ok(None),
            Binding::Masquerade(subnets) => {
                let (v4, v6) = links.has_global_addresses(pod).await?;
                Ok(Some((Lease::masquerade(subnets, v4, v6), pod.link.mtu)))
            }
            Binding::Bridge(server) => {
                let file = self
                    .private
                    .join(format!("vif-cache-{}.json", pod.link.name));
                let lease = dhcp_config_sources::read_lease(&tap.interface, &file, *server).await?;
                if lease == Lease::default() {
                    return Ok(None);
                }
                let renamed = tap.renamed_interface(&pod.link.name);
                let interface = links.by_name(&renamed).await?;
                let interface = interface.ok_or_else(|| no_link(tap, &renamed))?;
                Ok(Some((lease, interface.link.mtu)))
            }
        }
    }

    async fn serve(
        &self,
        tap: &Tap,
        pod: &PodLink,
        config: &DhcpConfig,
        links: &Links,
    ) -> Result<(), NetworkError> {
        let name = tap.bridge(&pod.link.name);
        let bridge = links.by_name(&name).await?;
        let bridge = bridge.ok_or_else(|| no_link(tap, &name))?;
        let responders = DhcpResponders::new(config, &tap.dhcp_options, bridge.link.mac);
        self.servers.serve(&tap.interface, &bridge, responders)
    }
}

fn no_link(tap: &Tap, links: &str) -> NetworkError {
    NetworkError::NoLink {
        interface: tap.interface.clone(),
        links: links.to_owned(),
    }
}

#[cfg(test)]
mod tests;
