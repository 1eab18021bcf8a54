//! The count protocol: blocks until as many hooks as the Pod was given are ready.
//!
//! In the hooks directory every sub-directory is a hook's own; every socket and every `*.wasm` file
//! in it counts as one hook, and other files are ignored. A sidecar is ready when it answered Info;
//! a module is ready when it is compiled, instantiated and has described itself. Writers of modules
//! rename them into place.
//!
//! Changes are told by inotify where there is any, a socket is tried again with growing pauses, and
//! once a second everything is looked at again. All of that ends with the collection.

mod census;
mod late;
mod probe;
mod scan;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::chain::{Hook, Standing};
use crate::policy::{OperatorPolicy, PolicyError, PolicySource};
use crate::record::{RecordConfig, Recorder};
use crate::wasm::{Loader, Options};
use crate::{Chain, Compiler, Limits};
use census::{Attempt, Census, Verdict};
pub(crate) use late::Late;
use probe::{Probe, Probed};
use scan::{Id, ScanError};
use watch::Watch;

/// Behind everything else.
const RESCAN: Duration = Duration::from_secs(1);

/// What is collected, and how.
#[derive(Debug, Clone)]
pub struct CollectConfig {
    /// One sub-directory per hook. Need not exist when no hook is expected.
    pub hooks_dir: PathBuf,
    /// How many hooks there will be (`--hook-sidecars`).
    pub expected: usize,
    /// How long they may take to get ready.
    pub deadline: Duration,
    /// Where compiled modules are kept: created with mode 0700, refused when others can write there.
    pub artifacts_dir: PathBuf,
    /// Directories of the image with artifacts that [`bake`](crate::wasm::bake) wrote.
    pub baked_dirs: Vec<PathBuf>,
    /// Who compiles.
    pub compiler: Compiler,
    /// What hooks may use.
    pub limits: Limits,
    /// What hooks are told of the host, as `virt-launcher/0.1.0`.
    pub host_name: String,
    /// Where the operator's policy is.
    pub policy: PolicySource,
    /// The virtual machine's namespace, for the rules of that policy; empty when not known.
    pub namespace: String,
    /// Where plugins have their sockets, in a directory each.
    pub plugins_dir: PathBuf,
    /// Where every run is written down, if anywhere.
    pub record: Option<RecordConfig>,
}

/// No hook, no policy, no record; modules compiled in this process.
impl Default for CollectConfig {
    fn default() -> Self {
        Self {
            hooks_dir: PathBuf::from("/var/run/kubevirt-hooks"),
            expected: 0,
            deadline: Duration::from_secs(60),
            artifacts_dir: PathBuf::from("/var/run/kubevirt-private/hook-artifacts"),
            baked_dirs: Vec::new(),
            compiler: Compiler::InProcess,
            limits: Limits::default(),
            host_name: concat!("hook-host/", env!("CARGO_PKG_VERSION")).to_owned(),
            policy: PolicySource::None,
            namespace: String::new(),
            plugins_dir: PathBuf::from("/var/run/kubevirt-plugin"),
            record: None,
        }
    }
}

/// Hooks that did not get ready.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// Fewer than expected were ready in time.
    #[error(
        "{ready} of {expected} hooks were ready in {hooks_dir} within {deadline:?}; arrived: \
         {arrived}; waited for: {laggards} (--hook-sidecars must be the number of hooks)"
    )]
    Deadline {
        /// How many were ready.
        ready: usize,
        /// How many should have been.
        expected: usize,
        /// Where.
        hooks_dir: PathBuf,
        /// How long they had.
        deadline: Duration,
        /// Those that were ready, and when.
        arrived: String,
        /// The others, and what each lacks.
        laggards: String,
    },
    /// More hooks than expected are there.
    #[error(
        "{hooks_dir} holds {} hooks and {expected} were expected: {}; remove what does not belong \
         there, or raise --hook-sidecars", hooks.len(), hooks.join(", ")
    )]
    Surplus {
        /// Where.
        hooks_dir: PathBuf,
        /// How many there should be.
        expected: usize,
        /// All that are there.
        hooks: Vec<String>,
    },
    /// A directory holds both sockets and modules.
    #[error(
        "{directory} holds both sockets and modules ({files}); a sidecar and a WASM hook each need \
         a directory of their own"
    )]
    Mixed {
        /// Which.
        directory: PathBuf,
        /// What is in it.
        files: String,
    },
    /// The operator's policy cannot be used. It is read even when no hook is expected.
    #[error("the operator's policy: {0}")]
    Policy(#[from] PolicyError),
    /// The directory of records cannot be used.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// A hook that will not get ready, whatever one waits.
    #[error("{0}")]
    Unusable(String),
    /// The hooks directory cannot be read.
    #[error("the hooks directory cannot be read: {0}")]
    Scan(String),
}

/// Blocks until all hooks are ready, and gives them in order. Nothing is read when none is expected.
pub async fn collect(config: CollectConfig) -> Result<Chain, CollectError> {
    let operator = OperatorPolicy::read(&config.policy)?;
    let standing = Standing {
        limits: config.limits.clone(),
        recorder: config.record.as_ref().map(Recorder::open).transpose()?,
        operator: operator.clone(),
        plugins_dir: config.plugins_dir.clone(),
    };
    if config.expected == 0 {
        // Plugins may still come.
        return Ok(Chain::new(Vec::new(), standing, None));
    }
    let end = tokio::time::Instant::now() + config.deadline;
    let mut collection = Collection::new(&config, operator);
    match timeout_at(end, collection.run()).await {
        Ok(outcome) => outcome?,
        Err(_) => return Err(collection.too_late()),
    }
    Ok(collection.chain(standing))
}

/// A collection under way; dropping it ends the attempts that are out.
struct Collection<'a> {
    config: &'a CollectConfig,
    census: Census,
    probe: Probe,
    out: JoinSet<(Attempt, Probed)>,
    hooks: BTreeMap<Id, Hook>,
    watch: Watch,
}

impl<'a> Collection<'a> {
    fn new(config: &'a CollectConfig, operator: Option<OperatorPolicy>) -> Self {
        let loader = Loader::new(Options {
            limits: config.limits.clone(),
            compiler: config.compiler.clone(),
            artifacts_dir: Some(config.artifacts_dir.clone()),
            baked_dirs: config.baked_dirs.clone(),
            host_name: config.host_name.clone(),
        });
        Self {
            config,
            census: Census::new(config.expected, Instant::now()),
            probe: Probe::new(config, loader, operator),
            out: JoinSet::new(),
            hooks: BTreeMap::new(),
            watch: Watch::new(),
        }
    }

    async fn run(&mut self) -> Result<(), CollectError> {
        loop {
            self.look()?;
            match self.census.verdict(Instant::now()) {
                Verdict::Complete => return Ok(()),
                Verdict::Flawed(reason) => return Err(CollectError::Unusable(reason)),
                Verdict::Surplus(ids) => return Err(self.surplus(&ids)),
                Verdict::Pending => {}
            }
            for attempt in self.census.attempts(Instant::now()) {
                let probe = self.probe.clone();
                self.out.spawn(async move {
                    let probed = probe.attempt(&attempt).await;
                    (attempt, probed)
                });
            }
            self.wait().await?;
        }
    }

    /// Takes in what is there, twice when there was something new to be watched.
    fn look(&mut self) -> Result<(), CollectError> {
        loop {
            let listing = scan::scan(&self.config.hooks_dir).map_err(unreadable)?;
            let observed = self.census.observe(&listing, Instant::now());
            observed.map_err(|mixed| self.mixed(&mixed))?;
            if !self
                .watch
                .cover(&self.config.hooks_dir, &listing.directories)
            {
                return Ok(());
            }
        }
    }

    /// Until there is something to look at: an outcome, a change, or time.
    async fn wait(&mut self) -> Result<(), CollectError> {
        let rescan = Instant::now() + RESCAN;
        let wake = self.census.next().map_or(rescan, |next| next.min(rescan));
        tokio::select! {
            Some(done) = self.out.join_next() => self.take(done)?,
            () = self.watch.changed() => {}
            () = sleep_until(wake.into()) => {}
        }
        // Whatever else is done by now need not wait for another look.
        while let Some(done) = self.out.try_join_next() {
            self.take(done)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        done: Result<(Attempt, Probed), tokio::task::JoinError>,
    ) -> Result<(), CollectError> {
        let (attempt, probed) =
            done.map_err(|error| CollectError::Unusable(format!("collecting a hook: {error}")))?;
        let (outcome, hook) = match probed {
            Probed::Ready(hook) => (census::Outcome::Ready, Some(*hook)),
            Probed::NotReady(reason) => (census::Outcome::NotReady(reason), None),
            Probed::Flawed(reason) => (census::Outcome::Flawed(reason), None),
            Probed::Fatal(reason) => return Err(CollectError::Unusable(reason)),
        };
        if self.census.outcome(&attempt, outcome, Instant::now())
            && let Some(hook) = hook
        {
            self.hooks.insert(attempt.id, hook);
        }
        Ok(())
    }

    fn surplus(&self, ids: &[Id]) -> CollectError {
        CollectError::Surplus {
            hooks_dir: self.config.hooks_dir.clone(),
            expected: self.config.expected,
            hooks: ids.iter().map(Id::to_string).collect(),
        }
    }

    fn mixed(&self, mixed: &census::Mixed) -> CollectError {
        CollectError::Mixed {
            directory: self.config.hooks_dir.join(&mixed.directory),
            files: mixed.files.join(", "),
        }
    }

    fn too_late(&self) -> CollectError {
        let (arrived, laggards) = (self.census.arrived(), self.census.laggards());
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

    fn chain(mut self, standing: Standing) -> Chain {
        let known: Vec<Id> = self.hooks.keys().cloned().collect();
        let late = Late::new(&self.config.hooks_dir, known);
        let mut hooks = Vec::new();
        for (id, mut hook) in std::mem::take(&mut self.hooks) {
            let Some(ready_after) = self.census.ready_after(&id) else {
                continue;
            };
            hook.info.ready_after = ready_after;
            if self.census.shares_directory(&id) {
                hook.info.hook = id.to_string();
            }
            announce(&hook);
            hooks.push(hook);
        }
        Chain::new(hooks, standing, Some(late))
    }
}

fn announce(hook: &Hook) {
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
        kind = ?info.kind,
        hook_points = points.join(","),
        failure_policy = ?hook.settings.failure_policy,
        ready_after_ms = u64::try_from(info.ready_after.as_millis()).unwrap_or(u64::MAX),
        "hook is ready"
    );
}

fn unreadable(error: ScanError) -> CollectError {
    CollectError::Scan(error.to_string())
}

/// Where a hook's file is, for those who need a path.
fn path(hooks_dir: &Path, id: &Id) -> PathBuf {
    hooks_dir.join(&id.directory).join(&id.file)
}
