//! Reads the statistics of the domain and QEMU's version.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use libvirt::{Domain, DomainStats, Version, XmlKind};

use super::call_class::{QUERY, STATISTICS};
use super::reconnecting_connection::Session;
use super::{CacheAge, CallError, Client, Inner};

/// How long statistics are cached: at most as long as in KubeVirt, and shorter if they are polled.
pub(super) const STATISTICS_AGE: CacheAge = CacheAge {
    max: Duration::from_millis(3250),
    refresh_after: Duration::from_secs(1),
};

impl Client {
    /// The statistics of the running domain, rendered by `render` from libvirt's statistics and the domain's XML;
    /// `None` when the domain does not run. Callers share the answer, which is at most 3.25 s old.
    pub async fn statistics(
        &self,
        render: impl Fn(&DomainStats, &str) -> String + Send + 'static,
    ) -> Result<Option<Arc<str>>, CallError> {
        let client = self.clone();
        let read = async move {
            let read = |inner: &Inner, session: &Session| {
                let read =
                    |domain: &Arc<dyn Domain>| Ok((domain.stats()?, domain.xml(XmlKind::Active)?));
                Ok::<_, CallError>(inner.handle.read(session, &inner.domain_name, read)?)
            };
            let read = client.read("reading the domain's statistics", STATISTICS, read);
            let statistics = read.await?.and_then(|(stats, xml)| Some((stats?, xml)));
            Ok::<_, CallError>(statistics.map(|(stats, xml)| render(&stats, &xml).into()))
        };
        self.0.statistics.get(read).await
    }

    /// QEMU's version, which is read once per session.
    pub async fn qemu_version(&self) -> Result<Version, CallError> {
        let cached = *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let generation = self.0.connection.generation();
        if let Some((_, version)) = cached.filter(|(cached_in, _)| *cached_in == generation) {
            return Ok(version);
        }
        let ask = |_: &Inner, session: &Session| {
            Ok::<_, CallError>((session.generation, session.hypervisor.qemu_version()?))
        };
        let (generation, version) = self.read("asking for QEMU's version", QUERY, ask).await?;
        *self
            .0
            .version
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some((generation, version));
        Ok(version)
    }
}
