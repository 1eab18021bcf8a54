//! The guest's network: its interfaces attached to the tap devices that virt-handler made, and DHCP.
//!
//! This is KubeVirt's phase 2 of the network setup. [`domain::pod_network_and_dhcp`] decides; this module reads the files,
//! asks for the links and opens the sockets. It runs before the hooks see the domain.

mod dhcp;
mod dhcp_config_files;
mod error;
mod pod_links;

use std::path::{Path, PathBuf};

use domain::libvirt_spec::{DomainSpec, Interface};
use domain::pod_network_and_dhcp::{Binding, Lease, Tap, taps};
use kubevirt_api::virtual_machine_options::Options;
use kubevirt_api::vmi::Vmi;

pub(super) use error::NetworkError;

use dhcp::{DhcpConfig, DhcpServers, Offer};
use pod_links::{Links, PodLink};

/// The network of one pod.
pub struct PodNetworkSetup {
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

    /// Attaches the domain's interfaces and serves their DHCP, from now on until this is dropped.
    /// Repeating it is harmless.
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

    /// Attaches one interface of a running VM, whose links virt-handler has made by now, and serves its DHCP.
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
        let found = links.first_of(&tap.pod_interfaces).await?;
        let pod = found.ok_or_else(|| no_link(tap, &tap.pod_interfaces.join(" or ")))?;
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
                hostname: dhcp_config_files::hostname(&self.hostname).await?,
                dns: (dhcp_config_files::dns(&self.resolv_conf).await?)
                    .with_subdomain(&vmi.spec.subdomain),
            };
            self.serve(tap, &pod, &config, links).await?;
        }
        Ok(())
    }

    /// The guest's lease and MTU; `None` where a plugin or another server answers DHCP.
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
                let lease = dhcp_config_files::lease(&tap.interface, &file, *server).await?;
                if lease == Lease::default() {
                    return Ok(None);
                }
                let renamed = tap.renamed_interface(&pod.link.name);
                let real = links.by_name(&renamed).await?;
                let real = real.ok_or_else(|| no_link(tap, &renamed))?;
                Ok(Some((lease, real.link.mtu)))
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
        let offer = Offer::new(config, &tap.dhcp_options, bridge.link.mac);
        self.servers.serve(&tap.interface, &bridge, offer)
    }
}

fn no_link(tap: &Tap, links: &str) -> NetworkError {
    NetworkError::NoLink {
        interface: tap.interface.clone(),
        links: links.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
