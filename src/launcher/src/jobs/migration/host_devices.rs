//! SR-IOV interfaces, which cannot migrate: they are detached before, and attached again if the migration fails.

use std::sync::Arc;
use std::time::Duration;

use domain_xml::{Document, Element};
use libvirt::{Affect, Domain, XmlKind};
use tokio::time::Instant;

use crate::blocking;
use crate::jobs::JobError;

const SRIOV: &str = "ua-sriov-";
/// One change of a device.
const CHANGE: Duration = Duration::from_secs(11);
/// The guest has this long to release its devices.
const RELEASE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// The detached devices, in libvirt's XML.
pub(super) type Detached = Vec<String>;

/// Detaches the SR-IOV interfaces, and waits until the guest has released them. The devices are added to `detached` as
/// they are asked for.
pub(super) async fn detach(
    domain: &Arc<dyn Domain>,
    detached: &mut Detached,
) -> Result<(), JobError> {
    let devices = sriov_devices(domain).await?;
    if devices.is_empty() {
        return Ok(());
    }
    for device in devices {
        tracing::info!(device, "detaching an SR-IOV interface for the migration");
        let (domain, xml) = (Arc::clone(domain), device.clone());
        detached.push(device);
        let detach = move || domain.detach_device(&xml, Affect::LiveAndConfig);
        blocking::call("detaching a host device", CHANGE, detach).await??;
    }
    let give_up = Instant::now() + RELEASE;
    while !sriov_devices(domain).await?.is_empty() {
        if Instant::now() >= give_up {
            return Err(JobError::HostDevicesKept(RELEASE));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Attaches the devices again that the guest has released.
pub(super) async fn attach(domain: &Arc<dyn Domain>, detached: &Detached) {
    if detached.is_empty() {
        return;
    }
    let known = sriov_devices(domain).await.unwrap_or_default();
    for device in detached.iter().filter(|device| !known.contains(device)) {
        let (domain, xml) = (Arc::clone(domain), device.clone());
        let attach = move || domain.attach_device(&xml, Affect::LiveAndConfig);
        let attached = blocking::call("attaching a host device", CHANGE, attach).await;
        let problem = match attached {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(
            device,
            reason = problem,
            "an SR-IOV interface is not attached again after the migration failed"
        );
    }
}

async fn sriov_devices(domain: &Arc<dyn Domain>) -> Result<Vec<String>, JobError> {
    let domain = Arc::clone(domain);
    let read = move || domain.xml(XmlKind::Active);
    let xml = blocking::call("reading the domain's description", CHANGE, read).await??;
    Ok(sriov_elements(&xml))
}

fn sriov_elements(xml: &str) -> Vec<String> {
    let Ok(document) = Document::parse(xml) else {
        return Vec::new();
    };
    let devices = document.root().child("devices");
    let devices = devices
        .into_iter()
        .flat_map(|devices| devices.children_named("hostdev"));
    devices
        .filter(|device| is_sriov(device))
        .map(Element::render)
        .collect()
}

fn is_sriov(device: &Element) -> bool {
    let alias = device.child("alias").and_then(|alias| alias.attr("name"));
    alias.is_some_and(|alias| alias.starts_with(SRIOV))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sriov_interfaces_are_detached() {
        let xml = "<domain><devices><hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev>\
            <hostdev><alias name='ua-gpu-one'/></hostdev><interface><alias name='ua-red'/></interface>\
            </devices></domain>";
        let expected = ["<hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev>"];
        assert_eq!(sriov_elements(xml), expected);
        assert!(sriov_elements("<domain/>").is_empty() && sriov_elements("x").is_empty());
    }
}
