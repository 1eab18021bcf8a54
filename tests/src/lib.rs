//! The harness of the end-to-end tests, the demo and the measurements: a pod (the launcher's container, as namespaces
//! on this machine), a virt-handler (the launcher's client, its notification server, and the rules by which
//! KubeVirt's decides when to sync, shut down, kill and delete), hook sidecars, WASM hooks, VMIs, and a small guest
//! that reports on its serial console which devices and files it has.
//!
//! Sockets, daemons, QEMU and the guest are real.

pub mod backup_export_server;
pub mod binaries;
pub mod build_and_install_hooks;
pub mod cgroup;
pub mod emulated_virt_handler;
pub mod grpc_over_unix_socket;
pub mod guest_console_log;
pub mod guest_image;
pub mod launcher_fixture;
pub mod launcher_user;
pub mod migration;
pub mod not_tested;
pub mod pod;
pub mod pod_semaphore;
pub mod raw_http2_client;
pub mod recorded_kubevirt_answers;
pub mod sample_pod_facts;
pub mod sidecar_server;
pub mod virsh;
pub mod vmi_builder;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Polls `probe` until it returns a value. Fails after `deadline`, with `what` in the error.
pub async fn wait_until<T>(
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
