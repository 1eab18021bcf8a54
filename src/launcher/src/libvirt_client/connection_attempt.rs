//! Tries once to connect to libvirt's daemon.

use std::sync::Arc;
use std::time::Duration;

use libvirt::HypervisorConnection;

use crate::blocking::{self, NoAnswer};

/// Opens a connection to the daemon at a URI. Blocking.
pub(crate) type ConnectTarget =
    Arc<dyn Fn(&str) -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;
/// Opens a connection to the pod's daemon. Blocking.
pub(crate) type Connect =
    Arc<dyn Fn() -> libvirt::Result<Arc<dyn HypervisorConnection>> + Send + Sync>;

/// How long one attempt to connect may take. libvirt itself may wait for a daemon that starts.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connecting to libvirt's daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The daemon does not run, or refuses the connection.
    #[error("connecting to libvirt at {uri}: {source}; is its daemon installed and running?")]
    Refused {
        /// The connection's URI.
        uri: String,
        /// libvirt's last error.
        source: libvirt::Error,
    },
    /// The attempt timed out.
    #[error("connecting to libvirt at {uri}: {source}")]
    NoAnswer {
        /// The connection's URI.
        uri: String,
        /// The call that timed out.
        source: NoAnswer,
    },
    /// Registering for events failed.
    #[error("registering for libvirt's events: {0}")]
    Events(libvirt::Error),
}

/// Tries once to connect.
pub(super) async fn attempt(
    uri: &str,
    connect: &Connect,
) -> Result<Arc<dyn HypervisorConnection>, ConnectionError> {
    let connect = Arc::clone(connect);
    let connected =
        blocking::CONNECT_LANE.call("connecting to libvirt", ATTEMPT_TIMEOUT, move || connect());
    match connected.await {
        Ok(Ok(hypervisor)) => Ok(hypervisor),
        Ok(Err(source)) => Err(ConnectionError::Refused {
            uri: uri.to_owned(),
            source,
        }),
        Err(source) => Err(ConnectionError::NoAnswer {
            uri: uri.to_owned(),
            source,
        }),
    }
}
