//! SR-IOV interfaces, which cannot migrate: they are detached before a migration, and attached again if it fails.

use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::{LiveDevice, LiveDomain, sriov_interfaces};
use libvirt::{Affect, Domain, XmlKind};
use tokio::time::Instant;

use crate::jobs::{JobError, domain_call};
use crate::libvirt_client::request_detach;

/// Timeout of one call about a device.
const CALL_TIMEOUT: Duration = Duration::from_secs(11);
/// How long to wait until the guest has released its devices.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait, after a failed migration, for a device that the guest releases late. The record of the failure is
/// completed only after that.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The devices that were detached, or whose release was requested.
pub(super) type DetachedDevices = Vec<LiveDevice>;

/// Detaches the SR-IOV interfaces, and waits until the guest has released them. Each device is added to `detached` when
/// its release is requested.
pub(super) async fn detach(
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<(), JobError> {
    request_release(domain, detached).await?;
    let deadline = Instant::now() + RELEASE_TIMEOUT;
    while !read_sriov_interfaces(domain, XmlKind::Active)
        .await?
        .is_empty()
    {
        if Instant::now() >= deadline {
            return Err(JobError::HostDevicesNotReleased(RELEASE_TIMEOUT));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Asks the guest to release the SR-IOV interfaces.
async fn request_release(
    domain: &Arc<dyn Domain>,
    detached: &mut DetachedDevices,
) -> Result<(), JobError> {
    for device in read_sriov_interfaces(domain, XmlKind::Active).await? {
        tracing::info!(
            device = device.alias,
            "detaching an SR-IOV interface for the migration"
        );
        let xml = device.xml.clone();
        detached.push(device);
        let detach = move |domain: &dyn Domain| request_detach(domain, &xml);
        domain_call(domain, "detaching a host device", CALL_TIMEOUT, detach).await?;
    }
    Ok(())
}

/// Attaches the devices again. A device that the guest has not released is only added to the definition, from which the
/// request has removed it; if the guest releases it within [`LATE_RELEASE_TIMEOUT`], it is attached again.
pub(super) async fn attach(domain: &Arc<dyn Domain>, detached: &DetachedDevices) {
    attach_until(domain, detached, Instant::now() + LATE_RELEASE_TIMEOUT).await;
}

async fn attach_until(domain: &Arc<dyn Domain>, detached: &DetachedDevices, deadline: Instant) {
    for device in detached {
        if let Err(error) = attach_again(domain, device, deadline).await {
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
    deadline: Instant,
) -> Result<(), JobError> {
    if !has_interface(domain, XmlKind::Inactive, device).await? {
        attach_to(domain, Affect::Config, device).await?;
    }
    while has_interface(domain, XmlKind::Active, device).await? {
        if Instant::now() >= deadline {
            tracing::info!(device = device.alias, "the guest keeps an SR-IOV interface");
            return Ok(());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    attach_to(domain, Affect::Live, device).await
}

async fn attach_to(
    domain: &Arc<dyn Domain>,
    affect: Affect,
    device: &LiveDevice,
) -> Result<(), JobError> {
    let xml = device.xml.clone();
    let attach = move |domain: &dyn Domain| domain.attach_device(&xml, affect);
    domain_call(domain, "attaching a host device", CALL_TIMEOUT, attach).await
}

async fn has_interface(
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
    device: &LiveDevice,
) -> Result<bool, JobError> {
    let devices = read_sriov_interfaces(domain, kind).await?;
    Ok(devices.iter().any(|present| present.alias == device.alias))
}

async fn read_sriov_interfaces(
    domain: &Arc<dyn Domain>,
    kind: XmlKind,
) -> Result<Vec<LiveDevice>, JobError> {
    let read = move |domain: &dyn Domain| domain.xml(kind);
    let xml = domain_call(
        domain,
        "reading the domain's description",
        CALL_TIMEOUT,
        read,
    )
    .await?;
    Ok(sriov_interfaces(&LiveDomain::parse(xml)?))
}

#[cfg(test)]
mod tests {
    use libvirt::StartOptions;
    use libvirt::fake::FakeDaemon;

    use super::*;
    use crate::jobs::running_test_vm::DOMAIN;

    const XML: &str = "<domain type='kvm'><name>default_vm1</name><devices>\
        <hostdev mode='subsystem'><alias name='ua-sriov-blue'/></hostdev></devices></domain>";

    fn running_vm() -> (FakeDaemon, Arc<dyn Domain>) {
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
        let (fake, domain) = running_vm();
        fake.keep_devices(DOMAIN, true);
        for _ in 0..2 {
            let mut detached = DetachedDevices::new();
            // The second request is about a device that is missing in the definition.
            for _ in 0..2 {
                request_release(&domain, &mut detached).await.unwrap();
                assert_eq!(counts(&domain), (1, 0));
            }
            attach_until(&domain, &detached, Instant::now()).await;
            assert_eq!(counts(&domain), (1, 1));
        }
    }

    #[tokio::test]
    async fn interface_that_the_guest_releases_late_is_attached_again() {
        let (fake, domain) = running_vm();
        fake.keep_devices(DOMAIN, true);
        request_detach(&*domain, &first_interface(&domain).xml).unwrap();
        let detached = vec![first_interface(&domain)];
        let attaching = attach(&domain, &detached);
        let releasing = async {
            tokio::time::sleep(POLL_INTERVAL * 2).await;
            fake.keep_devices(DOMAIN, false);
        };
        tokio::join!(attaching, releasing);
        assert_eq!(counts(&domain), (1, 1));
    }

    #[tokio::test]
    async fn released_interface_is_attached_again() {
        let (_fake, domain) = running_vm();
        let mut detached = DetachedDevices::new();
        detach(&domain, &mut detached).await.unwrap();
        assert_eq!(counts(&domain), (0, 0));
        attach(&domain, &detached).await;
        assert_eq!(counts(&domain), (1, 1));
    }

    fn first_interface(domain: &Arc<dyn Domain>) -> LiveDevice {
        parse(domain, XmlKind::Active).remove(0)
    }
}
