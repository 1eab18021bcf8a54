//! What only looks at the VM.

use std::time::Duration;

use libvirt::XmlKind;
use proto::cmd::v1::{
    DomainResponse, DomainStatsResponse, QemuVersionResponse, Response as Answer,
};

use super::answer::{failed, ok};
use crate::blocking;
use crate::manager::error::{OpError, response_text};
use crate::manager::look::{LookError, look};
use crate::manager::vm::{QUICK, Vm};
use crate::stats::{self, Aliases, Load, MigrationProgress};

/// virt-handler waits 5 s for a query.
const QUERY: Duration = Duration::from_millis(4500);

/// The domain in KubeVirt's JSON; empty while there is none.
pub(super) async fn domain(vm: &Vm) -> DomainResponse {
    let (response, domain) = split(domain_json(vm).await);
    DomainResponse { response, domain }
}

async fn domain_json(vm: &Vm) -> Result<String, String> {
    let hypervisor = vm.connection.hypervisor();
    let name = vm.identity.domain.clone();
    let seen = blocking::call("looking at the domain", QUERY, move || {
        look(&*hypervisor, &name)
    });
    let seen = seen.await.map_err(|error| error.to_string())?;
    let seen = seen.map_err(|error| match error {
        LookError::Libvirt(error) => response_text(&error),
        other => other.to_string(),
    })?;
    if seen.is_gone() {
        return Ok(String::new());
    }
    let json = seen.domain(&vm.identity, vm.metadata.current()).to_json();
    let json = json.map_err(|error| error.to_string())?;
    String::from_utf8(json).map_err(|error| error.to_string())
}

/// The domain's figures in KubeVirt's JSON.
pub(super) async fn domain_stats(vm: &Vm) -> DomainStatsResponse {
    let (response, domain_stats) = split(stats_json(vm).await);
    DomainStatsResponse {
        response,
        domain_stats,
    }
}

async fn stats_json(vm: &Vm) -> Result<String, String> {
    let message = |error: OpError| error.message();
    let guest = vm.lookup().await.map_err(message)?;
    let Some(guest) = guest else {
        return Err("empty DomainStats".to_owned());
    };
    let read = |guest: &dyn libvirt::Guest| Ok((guest.stats()?, guest.xml(XmlKind::Active)?));
    let (figures, xml) = vm
        .on(&guest, "reading the domain's figures", QUERY, read)
        .await
        .map_err(message)?;
    let figures = figures.ok_or("empty DomainStats")?;
    let migration = MigrationProgress::default();
    let json = stats::domain_stats(&figures, &Aliases::of(&xml), &Load::default(), &migration);
    Ok(json.to_string())
}

/// QEMU's version.
pub(super) async fn qemu_version(vm: &Vm) -> QemuVersionResponse {
    let asked = vm.libvirt("asking for QEMU's version", QUICK, |hypervisor| {
        hypervisor.qemu_version()
    });
    let version = asked.await.map(|version| format!("QEMU {version}"));
    let (response, version) = split(version.map_err(|error| error.message()));
    QemuVersionResponse { response, version }
}

fn split(result: Result<String, String>) -> (Option<Answer>, String) {
    match result {
        Ok(text) => (Some(ok()), text),
        Err(message) => (Some(failed(message)), String::new()),
    }
}
