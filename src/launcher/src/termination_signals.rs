//! Termination signals, of which only the first counts.
//!
//! The monitor starts the launcher with these signals blocked. `main` first calls [`EarlySignals::register`], which
//! installs handlers that only record a signal, and unblocks the signals. Later [`listen`] adds the handlers of the
//! async runtime, and takes over a recorded signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const TERMINATION_SIGNALS: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
];

/// Records whether a termination signal came before `listen` was called.
#[derive(Debug, Default)]
pub struct EarlySignals {
    is_pending: Arc<AtomicBool>,
}

impl EarlySignals {
    /// Installs the handlers. From now on a termination signal does not kill this process.
    pub fn register() -> io::Result<EarlySignals> {
        let early = EarlySignals::default();
        for signal in TERMINATION_SIGNALS {
            signal_hook::flag::register(signal as i32, Arc::clone(&early.is_pending))?;
        }
        SigSet::from_iter(TERMINATION_SIGNALS).thread_unblock()?;
        Ok(early)
    }

    fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::SeqCst)
    }
}

/// Starts listening. The receiver becomes true with the first signal, which may have come early.
pub(crate) fn listen(early: &EarlySignals) -> io::Result<watch::Receiver<bool>> {
    let (sender, is_pending) = watch::channel(false);
    for kind in TERMINATION_SIGNALS {
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
    // Checked after the handlers are installed: a signal between a check and their installation would be missed.
    if early.is_pending() && !sender.send_replace(true) {
        tracing::info!("received a termination signal while starting");
    }
    Ok(is_pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn early_signal_is_received_when_listening_begins() {
        let early = EarlySignals::default();
        assert!(!*listen(&early).unwrap().borrow());
        early.is_pending.store(true, Ordering::SeqCst);
        assert!(*listen(&early).unwrap().borrow());
    }
}
