//! The engine of a loader, with the epoch thread, limits and host name that all its modules share.

use wasmtime::Engine;

use super::epoch_thread::EpochThread;
use crate::Limits;

/// The engine of a loader, its epoch thread, and the limits and host name that all its modules share.
pub(super) struct EngineHost {
    pub(super) engine: Engine,
    pub(super) epoch_thread: EpochThread,
    pub(super) limits: Limits,
    pub(super) name: String,
}
