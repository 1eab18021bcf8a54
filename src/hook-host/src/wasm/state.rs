//! What one store holds.

use std::collections::{BTreeMap, HashMap};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::budget::Budget;
use super::journal::{Journal, Kind};
use crate::Limits;

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
    pub(super) fn new(facts: Facts, config: BTreeMap<String, String>, limits: &Limits) -> Self {
        let journal = Journal::new(limits.log);
        let wasi = WasiCtx::builder()
            .stdout(journal.stream(Kind::Output))
            .stderr(journal.stream(Kind::Error))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        let budget = Budget::new(limits.memory, limits.table_elements);
        Self {
            wasi,
            table: ResourceTable::new(),
            budget,
            journal,
            facts,
            config,
        }
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
