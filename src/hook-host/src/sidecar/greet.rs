//! Who a sidecar is.

use std::path::Path;
use std::time::Duration;

use proto::hooks::info::info_client::InfoClient;
use proto::hooks::info::{InfoParams, InfoResult};

use super::{Sidecar, Version, dial};
use crate::HookPoint;
use crate::wasm::Subscription;

/// KubeVirt's own.
const INFO: Duration = Duration::from_secs(1);
/// A sidecar's introduction is short.
const MAX_INFO: usize = 64 << 10;

/// A sidecar that did not introduce itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    /// Its socket cannot be dialled yet.
    #[error("{0}")]
    NotReady(String),
    /// It answered, but not in a way that we could work with.
    #[error("{0}")]
    Unusable(String),
}

/// Dials a socket and asks who is there.
pub(crate) async fn greet(socket: &Path) -> Result<Sidecar, GreetError> {
    let stream = dial::connect(socket)
        .await
        .map_err(|e| GreetError::NotReady(dial::reason(&e)))?;
    let info = tokio::time::timeout(INFO, ask(stream)).await;
    let info =
        info.map_err(|_| GreetError::Unusable(format!("no answer to Info in {INFO:?}")))??;
    let version = Version::newest(&info.versions).ok_or_else(|| {
        let offered = info.versions.join(", ");
        let ours = Version::ALL.map(Version::name).join(", ");
        GreetError::Unusable(format!(
            "it speaks [{offered}], this launcher speaks [{ours}]"
        ))
    })?;
    let hook_points = hook_points(socket, &info, version);
    Ok(Sidecar {
        socket: socket.to_owned(),
        name: info.name,
        version,
        hook_points,
    })
}

async fn ask(stream: tokio::net::UnixStream) -> Result<InfoResult, GreetError> {
    let unusable = |text: String| GreetError::Unusable(format!("Info failed: {text}"));
    let channel = dial::channel(stream)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    let mut client = InfoClient::new(channel).max_decoding_message_size(MAX_INFO);
    let answer = client.info(InfoParams {}).await;
    Ok(answer
        .map_err(|status| unusable(super::call::words(&status)))?
        .into_inner())
}

/// What the sidecar wants and its version has; the rest cannot be called and is said.
fn hook_points(socket: &Path, info: &InfoResult, version: Version) -> Vec<Subscription> {
    let mut points: Vec<Subscription> = Vec::new();
    for wanted in &info.hook_points {
        match HookPoint::from_name(&wanted.name).filter(|point| callable(version, *point)) {
            Some(point) if points.iter().all(|known| known.point != point) => {
                points.push(Subscription {
                    point,
                    priority: wanted.priority,
                });
            }
            Some(_) => {}
            None => tracing::warn!(
                socket = %socket.display(),
                sidecar = info.name,
                hook_point = wanted.name,
                version = version.name(),
                "the hook sidecar wants a hook point that its version of the contract does not \
                 have; it will not be called there"
            ),
        }
    }
    points
}

fn callable(version: Version, point: HookPoint) -> bool {
    match point {
        HookPoint::PreStart => false,
        HookPoint::OnDefineDomain => true,
        HookPoint::PreCloudInitIso => version >= Version::V1alpha2,
        HookPoint::Shutdown => version >= Version::V1alpha3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_its_hook_points() {
        let points = |version| {
            let points = HookPoint::ALL.into_iter().filter(|p| callable(version, *p));
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
