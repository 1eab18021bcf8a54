//! Reads the interfaces of the pod from the downward API's file `network-info`, and waits for that file.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use domain::host_facts::NetworkInfo;
use tokio::time::Instant;

use super::READ_TIMEOUT;
use crate::blocking::{self, NoAnswer};

/// Maximum number of bytes that are read. A pod has a handful of interfaces.
const MAX_NETWORK_INFO_BYTES: u64 = 1 << 20;
/// How long to wait for the pod's network information. The kubelet writes the addresses of new interfaces a moment
/// after virt-handler has seen them.
const NETWORK_INFO_TIMEOUT: Duration = Duration::from_secs(1);
pub(super) const NETWORK_INFO_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The pod's interfaces. A file that cannot be parsed is logged and ignored.
pub(super) fn read_network_info(path: &Path) -> Option<NetworkInfo> {
    parse_network_info(path)?
        .inspect_err(
            |error| tracing::warn!(file = %path.display(), reason = %error, "ignoring network info that cannot be parsed"),
        )
        .ok()
}

/// Waits until the downward API's file has the pod's network information, for [`NETWORK_INFO_TIMEOUT`] at most.
///
/// # Errors
/// [`NoAnswer`] if the file cannot be read in time.
pub(crate) async fn wait_for_network_info(path: &Path) -> Result<(), NoAnswer> {
    let begin = Instant::now();
    let what = "reading the pod's network information";
    loop {
        let path = path.to_owned();
        let read = move || has_network_info(&path);
        let is_there = blocking::file_call(what, READ_TIMEOUT, read).await?;
        if is_there || begin.elapsed() >= NETWORK_INFO_TIMEOUT {
            return Ok(());
        }
        tokio::time::sleep(NETWORK_INFO_POLL_INTERVAL).await;
    }
}

/// Whether the file describes the pod's interfaces.
fn has_network_info(path: &Path) -> bool {
    matches!(parse_network_info(path), Some(Ok(_)))
}

/// Parses the file; `None` if it is missing or empty, which means that the kubelet has not written it yet.
fn parse_network_info(path: &Path) -> Option<serde_json::Result<NetworkInfo>> {
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_NETWORK_INFO_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_network_information_is_not_malformed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let parse = |text: &str| {
            fs::write(file.path(), text).unwrap();
            parse_network_info(file.path())
        };
        assert!(parse("").is_none());
        assert!(parse("\n").is_none());
        assert!(parse("{").unwrap().is_err());
        assert!(!has_network_info(file.path()));
        assert!(parse(r#"{"interfaces":[]}"#).unwrap().is_ok());
        assert!(has_network_info(file.path()));
    }
}
