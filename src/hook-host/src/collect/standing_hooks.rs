//! Loads standing hooks: modules that are not counted, because they are present before this process starts.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::collect_config::StandingHooks;
use super::hook_file::{HookFile, HookFileKind};
use super::hook_probe::{Probe, ProbeResult};
use super::hooks_directory_listing::{self, HooksListing};
use super::readiness::ProbeAttempt;
use super::{CollectError, log_ready, scan_error};
use crate::hook::Hook;

/// The modules in the directory of standing hooks.
pub(super) struct StandingModules {
    directory: PathBuf,
    modules: Vec<HookFile>,
}

impl StandingModules {
    pub(super) fn read(standing: &StandingHooks) -> Result<Self, CollectError> {
        let directory = standing.directory();
        if matches!(standing, StandingHooks::In(directory) if !directory.is_dir()) {
            return Err(CollectError::Scan(format!(
                "{} of standing hooks is not a directory",
                directory.display()
            )));
        }
        let listing = match standing {
            StandingHooks::None => HooksListing::default(),
            _ => hooks_directory_listing::scan(&directory).map_err(scan_error)?,
        };
        check(&listing).map_err(|reason| {
            CollectError::Unusable(format!("standing hook {}/{reason}", directory.display()))
        })?;
        Ok(Self {
            directory,
            modules: listing.hooks,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Loads all modules. Unlike counted hooks, they are not probed again: a standing hook that cannot be used now
    /// cannot be used later.
    pub(super) async fn load(
        &self,
        probe: &Probe,
        end: tokio::time::Instant,
        deadline: Duration,
    ) -> Result<Vec<Hook>, CollectError> {
        let probe = probe.in_directory(&self.directory);
        let loading = join_all(self.modules.iter().map(|file| self.load_one(&probe, file)));
        let loaded = timeout_at(end, loading).await;
        let loaded = loaded.map_err(|_| CollectError::StandingDeadline {
            directory: self.directory.clone(),
            deadline,
        })?;
        loaded.into_iter().collect()
    }

    async fn load_one(&self, probe: &Probe, file: &HookFile) -> Result<Hook, CollectError> {
        let started = Instant::now();
        let attempt = ProbeAttempt {
            id: file.id.clone(),
            kind: file.kind,
            stamp: file.stamp,
        };
        let named = |reason| {
            let directory = self.directory.display();
            format!("standing hook {directory}/{}: {reason}", file.id)
        };
        match probe.attempt(&attempt).await {
            ProbeResult::Ready(mut hook) => {
                hook.info.ready_after = started.elapsed();
                if self.shares_directory(file) {
                    hook.info.hook = file.id.to_string();
                }
                log_ready(&hook, true);
                Ok(*hook)
            }
            ProbeResult::Refused(reason) => Err(CollectError::Refused(named(reason))),
            ProbeResult::NotReady(reason)
            | ProbeResult::Flawed(reason)
            | ProbeResult::Fatal(reason) => Err(CollectError::Unusable(named(reason))),
        }
    }

    fn shares_directory(&self, file: &HookFile) -> bool {
        let directory = &file.id.directory;
        let modules = self.modules.iter();
        modules
            .filter(|other| other.id.directory == *directory)
            .count()
            > 1
    }
}

/// Checks that all entries are modules. An empty sub-directory is an error, because its hook is missing: a volume
/// without the named sub-directory is mounted as an empty one.
fn check(listing: &HooksListing) -> Result<(), String> {
    if let Some(id) = listing.dangling.first() {
        return Err(format!("{id} is a link without a target"));
    }
    if let Some(reason) = listing.unusable.first() {
        return Err(reason.clone());
    }
    if let Some(socket) = listing
        .hooks
        .iter()
        .find(|file| file.kind == HookFileKind::Socket)
    {
        return Err(format!(
            "{} is a socket: only modules can be standing hooks",
            socket.id
        ));
    }
    let has_module = |name: &String| listing.hooks.iter().any(|file| file.id.directory == *name);
    match listing.directories.iter().find(|name| !has_module(name)) {
        Some(empty) => Err(format!("{empty} has no *.wasm file")),
        None => Ok(()),
    }
}
