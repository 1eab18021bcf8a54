//! The engine that all modules of a loader share.

use wasmtime::Engine;

use super::epoch_thread::EpochTicker;
use crate::Limits;

/// What all modules of one loader share.
pub(super) struct EngineHost {
    pub(super) engine: Engine,
    pub(super) ticker: EpochTicker,
    pub(super) limits: Limits,
    pub(super) name: String,
}
