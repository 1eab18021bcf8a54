//! Reads the errors of disks, because of which QEMU has paused the guest.

use std::collections::BTreeMap;

use libvirt::{DiskFault, Domain};

use super::call_class::STATISTICS;
use super::{CallError, Client, DomainSnapshot};

impl Client {
    /// The errors of failing disks, by alias. libvirt queries QEMU for them.
    pub(crate) async fn disk_errors(
        &self,
        snapshot: &DomainSnapshot,
    ) -> Result<BTreeMap<String, DiskFault>, CallError> {
        let query = |domain: &dyn Domain| domain.disk_errors();
        let errors = self
            .query("asking for disk errors", STATISTICS, query)
            .await?
            .unwrap_or_default();
        let disks = snapshot.spec.iter().flat_map(|spec| &spec.devices.disks);
        let aliases: BTreeMap<&str, &str> = disks
            .filter_map(|disk| Some((&*disk.target.device, &*disk.alias.as_ref()?.name)))
            .collect();
        let errors = errors.into_iter().map(|(target, error)| {
            let alias = aliases.get(target.as_str()).copied();
            (alias.unwrap_or(&target).to_owned(), error)
        });
        Ok(errors.collect())
    }
}
