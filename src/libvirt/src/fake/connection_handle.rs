//! The client's side of a connection to the fake daemon.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Call;
use super::daemon::{ConnectionState, Daemon};
use crate::error::{Error, Result, code, origin};

#[derive(Clone)]
pub(super) struct FakeConnection {
    pub(super) daemon: Arc<Daemon>,
    pub(super) state: Arc<ConnectionState>,
}

impl FakeConnection {
    pub(super) fn open(daemon: &Arc<Daemon>) -> Result<Self> {
        Ok(FakeConnection {
            daemon: Arc::clone(daemon),
            state: daemon.open()?,
        })
    }

    /// Begins a call: records it, and fails if a failure is queued or the connection has ended.
    pub(super) fn begin_call(&self, call: Call) -> Result<()> {
        self.daemon.begin_call(call)?;
        self.must_be_open()
    }

    pub(super) fn must_be_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(Error {
            code: code::INTERNAL_ERROR,
            domain: origin::RPC,
            message: "internal error: client socket is closed".into(),
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.state.is_closed.load(Ordering::SeqCst)
    }
}
