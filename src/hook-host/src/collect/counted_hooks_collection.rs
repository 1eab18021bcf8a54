//! Collects the counted hooks: scans the hooks directory and probes its hooks until the expected number is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use super::directory_watch::DirectoryWatch;
use super::hook_file::HookId;
use super::hook_probe::{Probe, ProbeResult};
use super::hooks_directory_listing;
use super::late_arrivals::LateArrivals;
use super::readiness::{self, CountState, ProbeAttempt, Readiness};
use super::{CollectConfig, CollectError, log_ready, scan_error};
use crate::blocking_work;
use crate::hook::Hook;

/// Interval of the periodic scan, which finds changes that inotify missed.
const RESCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Collects the counted hooks; `None` if none is expected.
pub(super) async fn collect_counted(
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
    Ok(Some(collection.into_hooks()))
}

/// A collection of counted hooks in progress. Dropping it cancels the running probes.
struct Collection<'a> {
    config: &'a CollectConfig,
    readiness: Readiness,
    probe: Probe,
    probes: JoinSet<(ProbeAttempt, ProbeResult)>,
    ready: BTreeMap<HookId, Hook>,
    /// The reasons of flawed hooks that are refused by a policy.
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
                CountState::Surplus(ids) => return Err(self.surplus_error(&ids)),
                CountState::Pending => {}
            }
            for attempt in self.readiness.due_attempts(Instant::now()) {
                let probe = self.probe.clone();
                self.probes.spawn(async move {
                    let probed = probe.attempt(&attempt).await;
                    (attempt, probed)
                });
            }
            self.wait_for_event().await?;
        }
    }

    /// Scans the hooks directory, and scans it again after a watch on a new sub-directory was added.
    async fn rescan(&mut self) -> Result<(), CollectError> {
        loop {
            let hooks_dir = self.config.hooks_dir.clone();
            let scanned =
                blocking_work::run(move || hooks_directory_listing::scan(&hooks_dir)).await;
            let scanned = scanned.map_err(|error| CollectError::Scan(error.to_string()))?;
            let listing = scanned.map_err(scan_error)?;
            let observed = self.readiness.observe(&listing, Instant::now());
            observed.map_err(|mixed| self.mixed_error(&mixed))?;
            if !self
                .watch
                .watch_new(&self.config.hooks_dir, &listing.directories)
            {
                return Ok(());
            }
        }
    }

    /// Waits for a finished probe, a change in the hooks directory, or the next due time.
    async fn wait_for_event(&mut self) -> Result<(), CollectError> {
        let next_scan = Instant::now() + RESCAN_INTERVAL;
        let wake = self
            .readiness
            .next_due()
            .map_or(next_scan, |due| due.min(next_scan));
        tokio::select! {
            Some(finished) = self.probes.join_next() => self.finish_probe(finished)?,
            () = self.watch.wait_for_change() => {}
            () = sleep_until(wake.into()) => {}
        }
        // All other finished probes are handled before the next scan.
        while let Some(finished) = self.probes.try_join_next() {
            self.finish_probe(finished)?;
        }
        Ok(())
    }

    fn finish_probe(
        &mut self,
        finished: Result<(ProbeAttempt, ProbeResult), tokio::task::JoinError>,
    ) -> Result<(), CollectError> {
        let (attempt, probed) = finished
            .map_err(|error| CollectError::Unusable(format!("collecting a hook: {error}")))?;
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

    fn surplus_error(&self, ids: &[HookId]) -> CollectError {
        CollectError::Surplus {
            hooks_dir: self.config.hooks_dir.clone(),
            expected: self.config.expected,
            hooks: ids.iter().map(HookId::to_string).collect(),
        }
    }

    fn mixed_error(&self, mixed: &readiness::MixedDirectory) -> CollectError {
        CollectError::Mixed {
            directory: self.config.hooks_dir.join(&mixed.directory),
            files: mixed.files.join(", "),
        }
    }

    fn deadline_error(&self) -> CollectError {
        let (arrived, not_ready) = (self.readiness.arrived(), self.readiness.not_ready());
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
            not_ready: not_ready.join("; "),
        }
    }

    /// The ready hooks, and the check for hooks that arrive later.
    fn into_hooks(self) -> (Vec<Hook>, LateArrivals) {
        let collected: Vec<HookId> = self.ready.keys().cloned().collect();
        let late_arrivals = LateArrivals::new(&self.config.hooks_dir, collected);
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
        (hooks, late_arrivals)
    }
}
