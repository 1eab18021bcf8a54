//! Calls Info of a sidecar, which returns its name, protocol versions and hook points.

use std::path::Path;
use std::time::Duration;

use proto::hooks::info::info_client::InfoClient;
use proto::hooks::info::{InfoParams, InfoResult};

use super::dial_unix_socket;
use super::protocol_version::Version;
use super::sidecar_call::Sidecar;
use crate::printable::printable;
use crate::{HookPoint, Subscription};

/// KubeVirt's own deadline for Info.
const INFO_DEADLINE: Duration = Duration::from_secs(1);
/// Maximum size of the answer in bytes.
const MAX_INFO_BYTES: usize = 64 << 10;
/// Maximum number of hook points, and of versions, in the answer: far more than exist.
const MAX_ENTRIES: usize = 64;
/// Maximum length of a name in errors and log lines, in bytes.
const MAX_NAME_BYTES: usize = 253;

/// Why a sidecar returned no usable Info.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InfoError {
    /// The socket cannot be dialled yet.
    #[error("{0}")]
    NotReady(String),
    /// There was no answer, or it cannot be used.
    #[error("{0}")]
    Unusable(String),
}

/// Dials a socket and calls Info.
pub(crate) async fn query_info(socket: &Path) -> Result<Sidecar, InfoError> {
    let stream = dial_unix_socket::connect(socket)
        .await
        .map_err(|e| InfoError::NotReady(dial_unix_socket::error_text(&e)))?;
    let info = tokio::time::timeout(INFO_DEADLINE, call_info(stream)).await;
    let info =
        info.map_err(|_| InfoError::Unusable(format!("no answer to Info in {INFO_DEADLINE:?}")))??;
    let entries = info.hook_points.len().max(info.versions.len());
    if entries > MAX_ENTRIES {
        return Err(InfoError::Unusable(format!(
            "its Info has {entries} hook points or versions, and {MAX_ENTRIES} is the most"
        )));
    }
    let version = Version::newest(&info.versions).ok_or_else(|| {
        let offered = printable(&info.versions.join(", "), MAX_NAME_BYTES);
        let supported = Version::ALL.map(Version::name).join(", ");
        InfoError::Unusable(format!(
            "it speaks [{offered}], this launcher speaks [{supported}]"
        ))
    })?;
    let hook_points = hook_points(socket, &info, version);
    Ok(Sidecar {
        socket: socket.to_owned(),
        name: printable(&info.name, MAX_NAME_BYTES),
        version,
        hook_points,
    })
}

async fn call_info(stream: tokio::net::UnixStream) -> Result<InfoResult, InfoError> {
    let unusable = |text: String| InfoError::Unusable(format!("Info failed: {text}"));
    let channel = dial_unix_socket::channel(stream)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    let mut client = InfoClient::new(channel).max_decoding_message_size(MAX_INFO_BYTES);
    let answer = client.info(InfoParams {}).await;
    Ok(answer
        .map_err(|status| unusable(super::sidecar_call::status_text(&status)))?
        .into_inner())
}

/// The hook points in the answer that the protocol version has. Others are logged.
fn hook_points(socket: &Path, info: &InfoResult, version: Version) -> Vec<Subscription> {
    let mut points: Vec<Subscription> = Vec::new();
    for wanted in &info.hook_points {
        match HookPoint::from_name(&wanted.name).filter(|point| has_hook_point(version, *point)) {
            Some(point) if points.iter().all(|known| known.point != point) => {
                points.push(Subscription {
                    point,
                    priority: wanted.priority,
                });
            }
            Some(_) => {}
            None => tracing::warn!(
                socket = %socket.display(),
                sidecar = printable(&info.name, MAX_NAME_BYTES),
                hook_point = printable(&wanted.name, MAX_NAME_BYTES),
                version = version.name(),
                "the hook sidecar wants a hook point that its version of the contract does not \
                 have; it will not be called there"
            ),
        }
    }
    points
}

fn has_hook_point(version: Version, point: HookPoint) -> bool {
    match point {
        HookPoint::PreStart | HookPoint::OnAttachDevice | HookPoint::PreMigrationSource => false,
        HookPoint::OnDefineDomain => true,
        HookPoint::PreCloudInitIso => version >= Version::V1alpha2,
        HookPoint::Shutdown => version >= Version::V1alpha3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_supports_its_hook_points() {
        let points = |version| {
            let points = HookPoint::ALL
                .into_iter()
                .filter(|p| has_hook_point(version, *p));
            points.map(HookPoint::name).collect::<Vec<_>>()
        };
        assert_eq!(points(Version::V1alpha1), ["OnDefineDomain"]);
        assert_eq!(
            points(Version::V1alpha2),
            ["PreCloudInitIso", "OnDefineDomain"]
        );
        assert_eq!(
            points(Version::V1alpha3),
            ["PreCloudInitIso", "OnDefineDomain", "Shutdown"]
        );
    }
}
