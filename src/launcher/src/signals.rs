//! Termination signals: the first one counts.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Starts listening; the receiver turns true with the first signal.
pub fn listen() -> io::Result<watch::Receiver<bool>> {
    let (sender, received) = watch::channel(false);
    let kinds = [
        ("SIGHUP", SignalKind::hangup()),
        ("SIGINT", SignalKind::interrupt()),
        ("SIGTERM", SignalKind::terminate()),
        ("SIGQUIT", SignalKind::quit()),
    ];
    for (name, kind) in kinds {
        let mut signals = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if sender.send_replace(true) {
                    tracing::info!("received {name} again, the end is under way");
                } else {
                    tracing::info!("received {name}");
                }
            }
        });
    }
    Ok(received)
}
