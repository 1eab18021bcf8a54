//! What one store holds.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{FsPerms, HostWallClock, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::budget::Budget;
use super::call::{Context, Fixed};
use super::journal::{Journal, Kind};
use crate::Limits;

/// Bytes of random numbers, which the host holds before the guest does.
const RANDOM_AT_ONCE: u64 = 1 << 20;

/// The facts of a call that a hook may ask for, by the keys that the contract names.
pub(super) type Facts = HashMap<&'static str, String>;

/// The host's side of one call.
pub(super) struct State {
    wasi: WasiCtx,
    table: ResourceTable,
    pub(super) budget: Budget,
    pub(super) journal: Journal,
    pub(super) facts: Facts,
    pub(super) config: BTreeMap<String, String>,
}

impl State {
    /// The error is the directory that cannot be given to the hook.
    pub(super) fn new(facts: Facts, context: &Context, limits: &Limits) -> Result<Self, String> {
        let journal = Journal::new(limits.log);
        let mut wasi = WasiCtx::builder();
        wasi.stdout(journal.stream(Kind::Output))
            .stderr(journal.stream(Kind::Error))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(RANDOM_AT_ONCE);
        for dir in &context.dirs {
            let name = dir.to_string_lossy();
            wasi.preopened_dir(dir, &name, FsPerms::ReadOnly)
                .map_err(|error| format!("the directory {name} cannot be opened: {error}"))?;
        }
        if let Some(fixed) = &context.fixed {
            fix(&mut wasi, fixed);
        }
        let budget = Budget::new(limits.memory, limits.table_elements);
        Ok(Self {
            wasi: wasi.build(),
            table: ResourceTable::new(),
            budget,
            journal,
            facts,
            config: context.config.clone(),
        })
    }
}

/// Takes from a guest what differs from run to run: random numbers and the time of day.
fn fix(wasi: &mut WasiCtxBuilder, fixed: &Fixed) {
    wasi.secure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random(Deterministic::new(fixed.seed.to_vec()))
        .insecure_random_seed(seed(&fixed.seed))
        .wall_clock(Stopped(fixed.time));
}

fn seed(bytes: &[u8; 32]) -> u128 {
    let (first, _) = bytes.split_at(16);
    first
        .iter()
        .fold(0, |seed, byte| seed << 8 | u128::from(*byte))
}

/// The time at which a call began, for as long as it lasts.
struct Stopped(Duration);

impl HostWallClock for Stopped {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}
