//! SR-IOV interfaces, which cannot migrate: they are detached before, and attached again if the migration fails.

use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{LiveDevice, LiveDomain, sriov_interfaces};
use libvirt::{Affect, Domain, XmlKind};
use tokio::time::Instant;

use crate::jobs::{JobError, domain_call};
use crate::libvirt_client::request_detach;

/// One change of a device.
const CHANGE: Duration = Duration::from_secs(11);
/// The guest has this long to release its devices.
const RELEASE: Duration = Duration::from_secs(30);
/// After a failed migration a device that is released late is waited for; the record of the failure waits too.
const LATE_RELEASE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// The devices that were detached, or asked for.
pub(super) type DetachedDevices = Vec<LiveDevice>;

/// Detaches the SR-IOV interfaces, and waits until the guest has released them. The devices are added to `detached` as
/// they are asked for.
pub(super) async fn detach(
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<(), JobError> {
    request(domain, detached).await?;
    let give_up = Instant::now() + RELEASE;
    while !read_sriov_interfaces(domain, XmlKind::Active)
        .await?
        .is_empty()
    {
        if Instant::now() >= give_up {
            return Err(JobError::HostDevicesNotReleased(RELEASE));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Asks the guest for the devices.
async fn request(domain: &Arc<dyn Domain>, detached: &mut DetachedDevices) -> Result<(), JobError> {
    for device in read_sriov_interfaces(domain, XmlKind::Active).await? {
        tracing::info!(
            device = device.alias,
            "detaching an SR-IOV interface for the migration"
        );
        let xml = device.xml.clone();
        detached.push(device);
        let detach = move |domain: &dyn Domain| request_detach(domain, &xml);
        domain_call(domain, "detaching a host device", CHANGE, detach).await?;
    }
    Ok(())
}

/// Attaches the devices again. A device that the guest has not released stays, and returns to the definition, which lost
/// it with the request; if the guest releases it within [`LATE_RELEASE`], it is attached once more.
pub(super) async fn attach(domain: &Arc<dyn Domain>, detached: &DetachedDevices) {
    attach_until(domain, detached, Instant::now() + LATE_RELEASE).await;
}

async fn attach_until(domain: &Arc<dyn Domain>, detached: &DetachedDevices, give_up: Instant) {
    for device in detached {
        if let Err(error) = attach_again(domain, device, give_up).await {
            tracing::error!(
                device = device.alias,
                reason = %error,
                "an SR-IOV interface is not attached again after the migration failed"
            );
        }
    }
}

async fn attach_again(
    domain: &Arc<dyn Domain>,
    device: &LiveDevice,
    give_up: Instant,
) -> Result<(), JobError> {
    if !has(domain, XmlKind::Inactive, device).await? {
        attach_to(domain, Affect::Config, device).await?;
    }
    while has(domain, XmlKind::Active, device).await? {
        if Instant::now() >= give_up {
            tracing::info!(device = device.alias, "the guest keeps an SR-IOV interface");
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
    attach_to(domain, Affect::Live, device).await
}

async fn attach_to(
    domain: &Arc<dyn Domain>,
    to: Affect,
    device: &LiveDevice,
) -> Result<(), JobError> {
    let xml = device.xml.clone();
    let attach = move |domain: &dyn Domain| domain.attach_device(&xml, to);
    domain_call(domain, "attaching a host device", CHANGE, attach).await
}

async fn has(
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
    device: &LiveDevice,
) -> Result<bool, JobError> {
    let devices = read_sriov_interfaces(domain, kind).await?;
    Ok(devices.iter().any(|one| one.alias == device.alias))
}

async fn read_sriov_interfaces(
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
) -> Result<Vec<LiveDevice>, JobError> {
    let read = move |domain: &dyn Domain| domain.xml(kind);
    let xml = domain_call(domain, "reading the domain's description", CHANGE, read).await?;
    Ok(sriov_interfaces(&LiveDomain::parse(xml)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use libvirt::StartOptions;
    use libvirt::fake::FakeDaemon;

    use super::*;
    use crate::jobs::tests::DOMAIN;

    const XML: &str = "<domain type='kvm'><name>default_vm1</name><devices>\
        <hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev></devices></domain>";

    fn running() -> (FakeDaemon, Arc<dyn Domain>) {
        let fake = FakeDaemon::new();
        let domain = fake.connect().unwrap().define(XML).unwrap();
        domain.start(StartOptions::RUNNING).unwrap();
        (fake, domain)
    }

    fn parse(domain: &Arc<dyn Domain>, kind: XmlKind) -> Vec<LiveDevice> {
        sriov_interfaces(&LiveDomain::parse(domain.xml(kind).unwrap()).unwrap())
    }

    fn counts(domain: &Arc<dyn Domain>) -> (usize, usize) {
        let count = |kind| parse(domain, kind).len();
        (count(XmlKind::Active), count(XmlKind::Inactive))
    }

    #[tokio::test]
    async fn interface_that_the_guest_keeps_stays_defined() {
        let (fake, domain) = running();
        fake.keep_devices(DOMAIN, true);
        for _ in 0..2 {
            let mut detached = DetachedDevices::new();
            // Also of a device that the definition has lost.
            for _ in 0..2 {
                request(&domain, &mut detached).await.unwrap();
                assert_eq!(counts(&domain), (1, 0));
            }
            attach_until(&domain, &detached, Instant::now()).await;
            assert_eq!(counts(&domain), (1, 1));
        }
    }

    #[tokio::test]
    async fn interface_that_the_guest_releases_late_is_attached_again() {
        let (fake, domain) = running();
        fake.keep_devices(DOMAIN, true);
        request_detach(&*domain, &sriov(&domain).xml).unwrap();
        let detached = vec![sriov(&domain)];
        let attaching = attach(&domain, &detached);
        let releasing = async {
            tokio::time::sleep(POLL * 2).await;
            fake.keep_devices(DOMAIN, false);
        };
        tokio::join!(attaching, releasing);
        assert_eq!(counts(&domain), (1, 1));
    }

    #[tokio::test]
    async fn released_interface_is_attached_again() {
        let (_fake, domain) = running();
        let mut detached = DetachedDevices::new();
        detach(&domain, &mut detached).await.unwrap();
        assert_eq!(counts(&domain), (0, 0));
        attach(&domain, &detached).await;
        assert_eq!(counts(&domain), (1, 1));
    }

    fn sriov(domain: &Arc<dyn Domain>) -> LiveDevice {
        parse(domain, XmlKind::Active).remove(0)
    }
}
