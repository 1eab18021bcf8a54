//! The count protocol: blocks until as many hooks as the Pod was given are ready.
//!
//! In the hooks directory every sub-directory is a hook's own; every socket and every `*.wasm` file
//! in it counts as one hook, and other files are ignored. A sidecar is ready when it answered Info;
//! a module is ready when it is compiled, instantiated and has described itself. Writers of modules
//! rename them into place.
//!
//! Standing hooks are modules in a directory of the same form that nobody counts: they are part of the
//! image, or were mounted before this process started. They are all loaded at once, and one that
//! cannot be used is an error.
//!
//! inotify reports changes, sockets are dialled again with exponential backoff, and a periodic scan
//! finds what inotify missed. Watches and retries end with the collection; afterwards the chain
//! scans the directory once more, at its first call, and logs hooks that arrived late.

mod collect_config;
mod directory_watch;
mod error;
mod late_arrivals;
mod list_hooks_directory;
mod plugin_modules;
mod probe_hook;
mod readiness;
mod standing_hooks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::Chain;
use crate::hook::Hook;
use crate::invoke::ChainConfig;
use crate::off_worker;
use crate::pod_facts::{PodFactSource, PodFiles};
use crate::policy::OperatorPolicy;
use crate::record::RecordWriter;
use crate::wasm::Loader;
pub use collect_config::{CollectConfig, StandingHooks};
use directory_watch::DirectoryWatch;
pub use error::CollectError;
use late_arrivals::LateArrivals;
use list_hooks_directory::{HookFileKind, HookId, ScanError};
use plugin_modules::PluginModules;
use probe_hook::{Probe, ProbeResult};
pub use readiness::WRITE_GRACE;
use readiness::{CountState, ProbeAttempt, Readiness};

/// The interval of the periodic scan, which finds what inotify missed.
const RESCAN: Duration = Duration::from_secs(1);

/// Waits until all hooks are ready and returns them as a chain. If no hook is expected, the hooks
/// directory is not read.
pub async fn collect(config: CollectConfig) -> Result<Chain, CollectError> {
    let end = tokio::time::Instant::now() + config.deadline;
    let operator = within(&config, end, "the operator's policy", {
        let policy = config.policy.clone();
        move || OperatorPolicy::read(&policy)
    });
    let operator = operator.await??;
    let plugin_modules = PluginModules {
        config: config.clone(),
        operator: operator.clone(),
    };
    let recorder = match &config.record {
        Some(record) => Some(RecordWriter::open(record).await?),
        None => None,
    };
    let chain_config = ChainConfig {
        limits: config.limits.clone(),
        recorder,
        operator: operator.clone(),
        plugins_dir: config.plugins_dir.clone(),
        plugin_modules: Some(Box::new(plugin_modules)),
        pod: PodFactSource::Files(Arc::new(PodFiles::new(config.pod.clone()))),
    };
    let standing = within(&config, end, "the directory of standing hooks", {
        let standing = config.standing.clone();
        move || standing_hooks::Listing::read(&standing)
    });
    let standing = standing.await??;
    if config.expected == 0 && standing.is_empty() {
        // A Sync may still bring plugins.
        return Ok(Chain::new(Vec::new(), chain_config, None));
    }
    let probe = Probe::new(&config, config.loader(operator.as_ref()), operator);
    let (standing, counted) = tokio::try_join!(
        standing.load(&probe, end, config.deadline),
        counted(&config, &probe, end)
    )?;
    let Some((mut hooks, late)) = counted else {
        return Ok(Chain::new(standing, chain_config, None));
    };
    for hook in standing {
        if hooks.iter().any(|other| other.info.hook == hook.info.hook) {
            return Err(CollectError::SameName {
                hook: hook.info.hook,
                standing: config.standing.directory(),
                hooks_dir: config.hooks_dir,
            });
        }
        hooks.push(hook);
    }
    let late = Arc::new(late);
    let late = move || {
        let late = Arc::clone(&late);
        let log = tracing::dispatcher::get_default(Clone::clone);
        // Nothing waits for it.
        tokio::task::spawn_blocking(move || {
            tracing::dispatcher::with_default(&log, || late.log_once());
        });
    };
    Ok(Chain::new(hooks, chain_config, Some(Box::new(late))))
}

/// Asks the operator's policy, and each `hook.yaml`, whether the modules in the hooks directory may be compiled, and
/// compiles none of them. The result loads them: it is for callers that compile modules before they collect them.
pub async fn admit_modules(config: &CollectConfig) -> Result<Loader, CollectError> {
    let end = tokio::time::Instant::now() + config.deadline;
    let read = {
        let (policy, hooks_dir) = (config.policy.clone(), config.hooks_dir.clone());
        move || {
            let operator = OperatorPolicy::read(&policy)?;
            let listing = list_hooks_directory::scan(&hooks_dir).map_err(scan_error)?;
            Ok::<_, CollectError>((operator, listing))
        }
    };
    let (operator, listing) = within(config, end, "the hooks directory", read).await??;
    let loader = config.loader(operator.as_ref());
    let probe = Probe::new(config, loader.clone(), operator);
    let modules = listing.hooks.iter();
    for module in modules.filter(|file| file.kind == HookFileKind::Module) {
        match probe.admit(&module.id).await {
            Ok(()) | Err(ProbeResult::Ready(_)) => {}
            Err(ProbeResult::Refused(reason)) => return Err(CollectError::Refused(reason)),
            Err(
                ProbeResult::NotReady(reason)
                | ProbeResult::Flawed(reason)
                | ProbeResult::Fatal(reason),
            ) => return Err(CollectError::Unusable(reason)),
        }
    }
    Ok(loader)
}

/// Reads files off the async workers, until `end`.
async fn within<T: Send + 'static>(
    config: &CollectConfig,
    end: tokio::time::Instant,
    what: &'static str,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CollectError> {
    match timeout_at(end, off_worker::run(read)).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(CollectError::Scan(format!("{what}: {error}"))),
        Err(_) => Err(CollectError::FilesDeadline {
            what,
            deadline: config.deadline,
        }),
    }
}

/// The counted hooks, if there are any.
async fn counted(
    config: &CollectConfig,
    probe: &Probe,
    end: tokio::time::Instant,
) -> Result<Option<(Vec<Hook>, LateArrivals)>, CollectError> {
    if config.expected == 0 {
        return Ok(None);
    }
    let mut collection = Collection::new(config, probe.clone());
    match timeout_at(end, collection.run()).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(collection.deadline_error()),
    }
    Ok(Some(collection.hooks()))
}

/// A collection in progress. Dropping it cancels the running probes.
struct Collection<'a> {
    config: &'a CollectConfig,
    readiness: Readiness,
    probe: Probe,
    probes: JoinSet<(ProbeAttempt, ProbeResult)>,
    ready: BTreeMap<HookId, Hook>,
    /// The reasons of hooks that may not run, among those of flawed ones.
    refusals: BTreeSet<String>,
    watch: DirectoryWatch,
}

impl<'a> Collection<'a> {
    fn new(config: &'a CollectConfig, probe: Probe) -> Self {
        Self {
            config,
            readiness: Readiness::new(config.expected, Instant::now()),
            probe,
            probes: JoinSet::new(),
            ready: BTreeMap::new(),
            refusals: BTreeSet::new(),
            watch: DirectoryWatch::new(),
        }
    }

    async fn run(&mut self) -> Result<(), CollectError> {
        loop {
            self.rescan().await?;
            match self.readiness.count_state(Instant::now()) {
                CountState::Complete => return Ok(()),
                CountState::Flawed(reason) if self.refusals.contains(&reason) => {
                    return Err(CollectError::Refused(reason));
                }
                CountState::Flawed(reason) => return Err(CollectError::Unusable(reason)),
                CountState::Surplus(ids) => return Err(self.surplus(&ids)),
                CountState::Pending => {}
            }
            for attempt in self.readiness.due_attempts(Instant::now()) {
                let probe = self.probe.clone();
                self.probes.spawn(async move {
                    let probed = probe.attempt(&attempt).await;
                    (attempt, probed)
                });
            }
            self.wait().await?;
        }
    }

    /// Scans the directory, and again after it started to watch a new sub-directory.
    async fn rescan(&mut self) -> Result<(), CollectError> {
        loop {
            let hooks_dir = self.config.hooks_dir.clone();
            let scanned = off_worker::run(move || list_hooks_directory::scan(&hooks_dir)).await;
            let scanned = scanned.map_err(|error| CollectError::Scan(error.to_string()))?;
            let listing = scanned.map_err(scan_error)?;
            let observed = self.readiness.observe(&listing, Instant::now());
            observed.map_err(|mixed| self.mixed(&mixed))?;
            if !self
                .watch
                .watch_new(&self.config.hooks_dir, &listing.directories)
            {
                return Ok(());
            }
        }
    }

    /// Waits for a finished probe, a change, or the next due time.
    async fn wait(&mut self) -> Result<(), CollectError> {
        let rescan = Instant::now() + RESCAN;
        let wake = self
            .readiness
            .next()
            .map_or(rescan, |next| next.min(rescan));
        tokio::select! {
            Some(done) = self.probes.join_next() => self.finish_probe(done)?,
            () = self.watch.changed() => {}
            () = sleep_until(wake.into()) => {}
        }
        // Take all other finished probes before the next scan.
        while let Some(done) = self.probes.try_join_next() {
            self.finish_probe(done)?;
        }
        Ok(())
    }

    fn finish_probe(
        &mut self,
        done: Result<(ProbeAttempt, ProbeResult), tokio::task::JoinError>,
    ) -> Result<(), CollectError> {
        let (attempt, probed) =
            done.map_err(|error| CollectError::Unusable(format!("collecting a hook: {error}")))?;
        let (outcome, hook) = match probed {
            ProbeResult::Ready(hook) => (readiness::ProbeOutcome::Ready, Some(*hook)),
            ProbeResult::NotReady(reason) => (readiness::ProbeOutcome::NotReady(reason), None),
            ProbeResult::Flawed(reason) => (readiness::ProbeOutcome::Flawed(reason), None),
            ProbeResult::Refused(reason) => {
                self.refusals.insert(reason.clone());
                (readiness::ProbeOutcome::Flawed(reason), None)
            }
            ProbeResult::Fatal(reason) => return Err(CollectError::Unusable(reason)),
        };
        if self
            .readiness
            .finish_attempt(&attempt, outcome, Instant::now())
            && let Some(hook) = hook
        {
            self.ready.insert(attempt.id, hook);
        }
        Ok(())
    }

    fn surplus(&self, ids: &[HookId]) -> CollectError {
        CollectError::Surplus {
            hooks_dir: self.config.hooks_dir.clone(),
            expected: self.config.expected,
            hooks: ids.iter().map(HookId::to_string).collect(),
        }
    }

    fn mixed(&self, mixed: &readiness::MixedDirectory) -> CollectError {
        CollectError::Mixed {
            directory: self.config.hooks_dir.join(&mixed.directory),
            files: mixed.files.join(", "),
        }
    }

    fn deadline_error(&self) -> CollectError {
        let (arrived, laggards) = (self.readiness.arrived(), self.readiness.laggards());
        CollectError::Deadline {
            ready: arrived.len(),
            expected: self.config.expected,
            hooks_dir: self.config.hooks_dir.clone(),
            deadline: self.config.deadline,
            arrived: if arrived.is_empty() {
                "none".into()
            } else {
                arrived.join(", ")
            },
            laggards: laggards.join("; "),
        }
    }

    fn hooks(self) -> (Vec<Hook>, LateArrivals) {
        let known: Vec<HookId> = self.ready.keys().cloned().collect();
        let late = LateArrivals::new(&self.config.hooks_dir, known);
        let mut hooks = Vec::new();
        for (id, mut hook) in self.ready {
            let Some(ready_after) = self.readiness.ready_after(&id) else {
                continue;
            };
            hook.info.ready_after = ready_after;
            if self.readiness.shares_directory(&id) {
                hook.info.hook = id.to_string();
            }
            log_ready(&hook, false);
            hooks.push(hook);
        }
        (hooks, late)
    }
}

fn log_ready(hook: &Hook, standing: bool) {
    let info = &hook.info;
    let points: Vec<_> = info
        .hook_points
        .iter()
        .map(|s| format!("{}={}", s.point, s.priority))
        .collect();
    tracing::info!(
        hook = info.hook,
        name = info.name,
        version = info.version,
        kind = %info.kind,
        standing,
        hook_points = points.join(","),
        failure_policy = ?hook.settings.failure_policy,
        ready_after_ms = u64::try_from(info.ready_after.as_millis()).unwrap_or(u64::MAX),
        "hook is ready"
    );
}

fn scan_error(error: ScanError) -> CollectError {
    CollectError::Scan(error.to_string())
}

/// The path of a hook's file.
fn hook_path(hooks_dir: &Path, id: &HookId) -> PathBuf {
    hooks_dir.join(&id.directory).join(&id.file)
}
