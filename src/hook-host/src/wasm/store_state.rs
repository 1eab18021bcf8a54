//! The host state of one wasmtime store, which exists for one call.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

use super::call_types::CallContext;
use super::hook_log::{HookLog, StandardStream};
use super::store_limiter::StoreLimiter;
use crate::Limits;
use crate::blocking_work;
use crate::pod_facts::PodFactReader;

/// Maximum number of random bytes that a guest gets at once, because the host allocates them first.
const MAX_RANDOM_BYTES: u64 = 1 << 20;

/// Maximum number of host resources, such as streams and pollables, that a guest has at once. A stream of a file has a
/// buffer of 64 KiB, which does not count against the guest's memory limit.
const MAX_RESOURCES: usize = 256;

/// Maximum number of directory entries that one call lists. The host has all entries of a directory in memory at once.
const MAX_DIR_ENTRIES: usize = 65_536;

/// The facts that a hook can query with the WIT function `invocation`, by the keys that the WIT names.
pub(super) type InvocationFacts = HashMap<&'static str, String>;

/// The host state of one call.
pub(super) struct StoreState {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(super) limiter: StoreLimiter,
    pub(super) log: HookLog,
    pub(super) invocation_facts: InvocationFacts,
    pub(super) config: BTreeMap<String, String>,
    pub(super) pod: PodFactReader,
    interfaces: BTreeSet<String>,
    has_dirs: bool,
    /// The number of directory entries that the call may still list.
    dir_entries_left: usize,
}

impl StoreState {
    /// Like [`StoreState::new`], but opens directories off the async workers.
    pub(super) async fn open(
        invocation_facts: InvocationFacts,
        context: &CallContext,
        limits: &Limits,
        pod: PodFactReader,
    ) -> Result<Self, String> {
        if context.dirs.is_empty() {
            return Self::new(invocation_facts, context, limits, pod);
        }
        let (context, limits) = (context.clone(), limits.clone());
        let opened =
            blocking_work::run(move || Self::new(invocation_facts, &context, &limits, pod)).await;
        opened.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Creates the state of a call. The error names a directory that cannot be opened for the hook.
    pub(super) fn new(
        invocation_facts: InvocationFacts,
        context: &CallContext,
        limits: &Limits,
        pod: PodFactReader,
    ) -> Result<Self, String> {
        let log = HookLog::new(limits.log);
        let mut wasi = WasiCtx::builder();
        wasi.stdout(log.stream(StandardStream::Output))
            .stderr(log.stream(StandardStream::Error))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(MAX_RANDOM_BYTES);
        for dir in &context.dirs {
            let name = dir.to_string_lossy();
            let opened = open_beneath(dir, &context.dir_roots)?;
            let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
            wasi.preopened_dir(path, &name, FsPerms::ReadOnly)
                .map_err(|error| format!("the directory {name} cannot be opened: {error}"))?;
        }
        if let Some(fixed) = &context.determinism {
            super::deterministic_wasi::make_deterministic(&mut wasi, fixed);
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_RESOURCES);
        let limiter = StoreLimiter::new(limits.memory, limits.table_elements);
        Ok(Self {
            wasi: wasi.build(),
            table,
            limiter,
            log,
            invocation_facts,
            config: context.config.clone(),
            pod,
            interfaces: context.interfaces.clone(),
            has_dirs: !context.dirs.is_empty(),
            dir_entries_left: MAX_DIR_ENTRIES,
        })
    }

    /// Whether the call may read directories.
    pub(super) fn has_dirs(&self) -> bool {
        self.has_dirs
    }

    /// Counts the entries of a listed directory. Returns whether the call may list this many entries.
    pub(super) fn spend_dir_entries(&mut self, entries: usize) -> bool {
        let left = self.dir_entries_left.checked_sub(entries);
        self.dir_entries_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Checks that the optional interface is granted. The error is the answer to the guest.
    pub(super) fn require_interface(&self, interface: &str) -> Result<(), String> {
        if self.interfaces.contains(interface) {
            return Ok(());
        }
        Err(format!("denied: {interface} is not granted to this hook"))
    }
}

/// Opens a directory. If it is in one of the roots, symbolic links in its path may not lead out of the root, because
/// the owner of a volume may put links there.
fn open_beneath(dir: &Path, roots: &[PathBuf]) -> Result<Dir, String> {
    let containing = roots.iter().filter(|root| dir.starts_with(root));
    let nearest = containing.max_by_key(|root| root.components().count());
    let root = nearest.map_or(dir, PathBuf::as_path);
    let opened = Dir::open_ambient_dir(root, ambient_authority())
        .map_err(|error| format!("the directory {} cannot be opened: {error}", root.display()))?;
    match dir.strip_prefix(root) {
        Ok(below) if !below.as_os_str().is_empty() => opened.open_dir(below).map_err(|error| {
            format!(
                "the directory {} cannot be opened within {}, which the operator's policy allows: {error}",
                dir.display(),
                root.display()
            )
        }),
        _ => Ok(opened),
    }
}

impl WasiView for StoreState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}
