//! What the end-to-end tests and the demo are made of: a pod (the launcher's container, as namespaces on this
//! machine), a virt-handler (the launcher's client and its notification server), hook sidecars, WASM hooks, a
//! small guest that tells what it was given, and VMIs that boot it.
//!
//! Nothing here is a mock: sockets, daemons, QEMU and the guest are real.

pub mod binaries;
pub mod console;
pub mod dial;
pub mod guest;
pub mod hooks;
pub mod pod;
pub mod scenario;
pub mod sidecar;
pub mod slots;
pub mod virt_handler;
pub mod vmi;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks `probe` again and again until it gives something, or fails naming `what` when `deadline` has passed.
pub async fn until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return Ok(found);
        }
        if begin.elapsed() > deadline {
            bail!("waited {deadline:?} for {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
