//! The guest's network: its interfaces attached to the tap devices that virt-handler made, and DHCP.
//!
//! This is KubeVirt's phase 2. What follows from what is decided in [`domain::pod_network`]; here
//! are the files, the links and the sockets. It runs before the hooks see the domain.

mod dhcp;
mod error;
mod files;
mod links;

use std::path::{Path, PathBuf};

use domain::options::Options;
use domain::pod_network::{Binding, Lease, Tap, taps};
use domain::spec::DomainSpec;
use domain::vmi::Vmi;

pub use error::NetworkError;

use dhcp::{Offer, Servers, Told};
use links::{Links, PodLink};

/// The network of one pod.
pub struct PodNetwork {
    private: PathBuf,
    resolv_conf: PathBuf,
    hostname: PathBuf,
    servers: Servers,
}

impl PodNetwork {
    /// KubeVirt's places; `private` is `/var/run/kubevirt-private`.
    pub fn kubevirt(private: &Path) -> PodNetwork {
        PodNetwork {
            private: private.to_owned(),
            resolv_conf: "/etc/resolv.conf".into(),
            hostname: "/proc/sys/kernel/hostname".into(),
            servers: Servers::default(),
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
            let told = Told {
                lease,
                mtu,
                hostname: files::hostname(&self.hostname).await?,
                dns: (files::dns(&self.resolv_conf).await?).with_subdomain(&vmi.spec.subdomain),
            };
            self.serve(tap, &pod, &told, links).await?;
        }
        Ok(())
    }

    /// What the guest is told by DHCP, with the MTU; nothing where that is another's business.
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
                let lease = files::lease(&tap.interface, &file, *server).await?;
                if lease == Lease::default() {
                    return Ok(None);
                }
                let renamed = tap.renamed(&pod.link.name);
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
        told: &Told,
        links: &Links,
    ) -> Result<(), NetworkError> {
        let name = tap.bridge(&pod.link.name);
        let bridge = links.by_name(&name).await?;
        let bridge = bridge.ok_or_else(|| no_link(tap, &name))?;
        let offer = Offer::new(told, &tap.dhcp_options, bridge.link.mac);
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
