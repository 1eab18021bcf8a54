//! Termination signals; only the first one counts.
//!
//! The monitor starts the launcher with these signals blocked. [`EarlySignals::register`], the first
//! call of `main`, installs handlers that only remember a signal and unblocks them; [`listen`] adds
//! the runtime's handlers later and takes over what was remembered.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const TERMINATE: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
];

/// Whether a termination signal came before anybody listened.
#[derive(Debug, Default)]
pub struct EarlySignals {
    is_pending: Arc<AtomicBool>,
}

impl EarlySignals {
    /// From now on no termination signal kills this process.
    pub fn register() -> io::Result<EarlySignals> {
        let early = EarlySignals::default();
        for signal in TERMINATE {
            signal_hook::flag::register(signal as i32, Arc::clone(&early.is_pending))?;
        }
        SigSet::from_iter(TERMINATE).thread_unblock()?;
        Ok(early)
    }

    fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::SeqCst)
    }
}

/// Starts listening; the receiver turns true with the first signal, early ones included.
pub(crate) fn listen(early: &EarlySignals) -> io::Result<watch::Receiver<bool>> {
    let (sender, is_pending) = watch::channel(false);
    for kind in TERMINATE {
        let mut signals = signal(SignalKind::from_raw(kind as i32))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if sender.send_replace(true) {
                    tracing::info!("received {kind} again, the end is under way");
                } else {
                    tracing::info!("received {kind}");
                }
            }
        });
    }
    // Only now: a signal between a check and the runtime's handlers would be missed.
    if early.is_pending() && !sender.send_replace(true) {
        tracing::info!("received a termination signal while starting");
    }
    Ok(is_pending)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn early_signal_is_there_when_listening_begins() {
        let early = EarlySignals::default();
        assert!(!*listen(&early).unwrap().borrow());
        early.is_pending.store(true, Ordering::SeqCst);
        assert!(*listen(&early).unwrap().borrow());
    }
}
