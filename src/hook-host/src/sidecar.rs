//! KubeVirt's hook sidecars: containers that the launcher calls with gRPC over a unix socket.
//!
//! Info of a sidecar is called once ([`query_info`]). Every call has a new connection, as in KubeVirt,
//! because sidecars may restart between calls.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use proto::hooks::info::info_client::InfoClient;
use proto::hooks::info::{InfoParams, InfoResult};
use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tokio::net::UnixStream;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::cloud_init::CloudInitAnswer;
use crate::hook_body::{BodyError, HookBody, HookCall, HookInput, HookOutput, HookReport};
use crate::printable::printable;
use crate::{HookPoint, Subscription};

impl HookBody for Sidecar {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(async move { HookReport::result_only(self.output(&call).await) })
    }

    fn has_own_deadline(&self) -> bool {
        true
    }

    fn rewrites_document(&self) -> bool {
        true
    }
}

impl Sidecar {
    async fn output(&self, call: &HookCall<'_>) -> Result<HookOutput, BodyError> {
        let body_error = |error: SidecarError| self.body_error(&error);
        let limits = call_limits(call);
        match call.input {
            // KubeVirt's sidecar protocol does not have these hook points.
            HookInput::PreStart | HookInput::Device(_) | HookInput::Migration(_) => {
                Ok(HookOutput::Nothing)
            }
            HookInput::Shutdown => {
                self.shutdown(limits).await.map_err(body_error)?;
                Ok(HookOutput::Nothing)
            }
            HookInput::CloudInit(data) => {
                let (json, source) = (data.json(), data.no_cloud_source());
                let answer = self.pre_cloud_init_iso(limits, call.vmi, json, source);
                answer.await.map(HookOutput::CloudInit).map_err(body_error)
            }
            HookInput::Domain(xml) => {
                let answer = self.on_define_domain(limits, call.vmi, xml).await;
                HookOutput::from_domain_bytes(answer.map_err(body_error)?)
            }
        }
    }

    fn body_error(&self, error: &SidecarError) -> BodyError {
        match error {
            SidecarError::Deadline(limit) => BodyError::Deadline(*limit),
            _ => BodyError::Sidecar {
                version: self.version.name().to_owned(),
                message: error.to_string(),
            },
        }
    }
}

fn call_limits(call: &HookCall<'_>) -> CallLimits {
    let limits = call.chain_limits;
    let deadline = match call.input {
        // The launcher is about to exit, so all sidecars have only the chain's deadline.
        HookInput::Shutdown => limits.sidecar_deadline.min(limits.chain_deadline),
        _ => limits.sidecar_deadline,
    };
    CallLimits {
        deadline,
        output: limits.output,
    }
}

/// A sidecar that answered Info.
#[derive(Debug, Clone)]
pub(crate) struct Sidecar {
    pub(crate) socket: PathBuf,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) hook_points: Vec<Subscription>,
}

/// Why a call of a sidecar returned no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SidecarError {
    /// The socket can no longer be dialled.
    #[error("{0}")]
    Unreachable(String),
    /// The sidecar answered with an error, or the connection broke.
    #[error("{0}")]
    Status(String),
    /// The call exceeded its deadline.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// The sidecar's protocol version does not have this call.
    #[error("{0} does not have this call")]
    NoSuchCall(&'static str),
}

/// Limits of one call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallLimits {
    /// Deadline of the call, connecting included.
    pub(crate) deadline: Duration,
    /// Maximum size of the answer in bytes.
    pub(crate) output: usize,
}

/// Calls a method of one protocol version. The versions have the same messages with different Rust types.
macro_rules! call {
    ($channel:expr, $output:expr, $version:ident, $method:ident, $params:expr) => {{
        let client = $version::callbacks_client::CallbacksClient::new($channel);
        let mut client = client.max_decoding_message_size($output);
        client
            .$method($params)
            .await
            .map_err(|status| SidecarError::Status(status_text(&status)))?
            .into_inner()
    }};
}

impl Sidecar {
    /// Calls `OnDefineDomain`. Returns the domain XML of the answer, not yet validated.
    pub(crate) async fn on_define_domain(
        &self,
        limits: CallLimits,
        vmi: &str,
        domain_xml: &str,
    ) -> Result<Vec<u8>, SidecarError> {
        let (domain_xml, vmi) = (domain_xml.as_bytes().to_vec(), vmi.as_bytes().to_vec());
        self.call_with_deadline(limits, async |channel| {
            Ok(match self.version {
                Version::V1alpha1 => {
                    let params = v1alpha1::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, limits.output, v1alpha1, on_define_domain, params).domain_xml
                }
                Version::V1alpha2 => {
                    let params = v1alpha2::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, limits.output, v1alpha2, on_define_domain, params).domain_xml
                }
                Version::V1alpha3 => {
                    let params = v1alpha3::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, limits.output, v1alpha3, on_define_domain, params).domain_xml
                }
            })
        })
        .await
    }

    /// Calls `PreCloudInitIso` with both forms of the data.
    pub(crate) async fn pre_cloud_init_iso(
        &self,
        limits: CallLimits,
        vmi: &str,
        data: String,
        no_cloud_source: String,
    ) -> Result<CloudInitAnswer, SidecarError> {
        let vmi = vmi.as_bytes().to_vec();
        let (cloud_init_data, cloud_init_no_cloud_source) =
            (data.into_bytes(), no_cloud_source.into_bytes());
        self.call_with_deadline(limits, async |channel| match self.version {
            Version::V1alpha1 => Err(SidecarError::NoSuchCall("v1alpha1")),
            Version::V1alpha2 => {
                let params = v1alpha2::PreCloudInitIsoParams {
                    cloud_init_no_cloud_source,
                    vmi,
                    cloud_init_data,
                };
                let answer = call!(channel, limits.output, v1alpha2, pre_cloud_init_iso, params);
                Ok(CloudInitAnswer::Json {
                    data: answer.cloud_init_data,
                    no_cloud_source: answer.cloud_init_no_cloud_source,
                })
            }
            Version::V1alpha3 => {
                let params = v1alpha3::PreCloudInitIsoParams {
                    cloud_init_no_cloud_source,
                    vmi,
                    cloud_init_data,
                };
                let answer = call!(channel, limits.output, v1alpha3, pre_cloud_init_iso, params);
                Ok(CloudInitAnswer::Json {
                    data: answer.cloud_init_data,
                    no_cloud_source: answer.cloud_init_no_cloud_source,
                })
            }
        })
        .await
    }

    pub(crate) async fn shutdown(&self, limits: CallLimits) -> Result<(), SidecarError> {
        self.call_with_deadline(limits, async |channel| match self.version {
            Version::V1alpha1 | Version::V1alpha2 => {
                Err(SidecarError::NoSuchCall(self.version.name()))
            }
            Version::V1alpha3 => {
                let params = v1alpha3::ShutdownParams {};
                call!(channel, limits.output, v1alpha3, shutdown, params);
                Ok(())
            }
        })
        .await
    }

    /// Dials the socket and makes one call, both within the deadline.
    async fn call_with_deadline<T>(
        &self,
        limits: CallLimits,
        call: impl AsyncFnOnce(Channel) -> Result<T, SidecarError>,
    ) -> Result<T, SidecarError> {
        let work = async {
            let stream = connect(&self.socket).await;
            let stream = stream.map_err(|error| SidecarError::Unreachable(error_text(&error)))?;
            let channel = channel(stream).await;
            call(channel.map_err(|error| SidecarError::Unreachable(error.to_string()))?).await
        };
        match tokio::time::timeout(limits.deadline, work).await {
            Ok(answer) => answer,
            Err(_) => Err(SidecarError::Deadline(limits.deadline)),
        }
    }
}

/// Code and message of a status as text.
pub(crate) fn status_text(status: &Status) -> String {
    let message = printable(status.message(), 2048);
    format!("{:?}: {message}", status.code())
}

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
    let stream = connect(socket)
        .await
        .map_err(|e| InfoError::NotReady(error_text(&e)))?;
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

async fn call_info(stream: UnixStream) -> Result<InfoResult, InfoError> {
    let unusable = |text: String| InfoError::Unusable(format!("Info failed: {text}"));
    let channel = channel(stream)
        .await
        .map_err(|error| unusable(error.to_string()))?;
    let mut client = InfoClient::new(channel).max_decoding_message_size(MAX_INFO_BYTES);
    let answer = client.info(InfoParams {}).await;
    Ok(answer
        .map_err(|status| unusable(status_text(&status)))?
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

/// The protocol versions, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    V1alpha1,
    V1alpha2,
    V1alpha3,
}

impl Version {
    const ALL: [Self; 3] = [Self::V1alpha1, Self::V1alpha2, Self::V1alpha3];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1alpha1 => "v1alpha1",
            Self::V1alpha2 => "v1alpha2",
            Self::V1alpha3 => "v1alpha3",
        }
    }

    /// The newest version that a sidecar and this host both know.
    fn newest(offered: &[String]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .rev()
            .find(|version| offered.iter().any(|name| name == version.name()))
    }
}

/// Timeout of a connection attempt. A local socket accepts at once or not at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// gRPC requires a URI, which has no meaning over a unix socket.
const PLACEHOLDER_URI: &str = "http://localhost";

async fn connect(socket: &Path) -> io::Result<UnixStream> {
    match tokio::time::timeout(CONNECT_TIMEOUT, UnixStream::connect(socket)).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Makes a gRPC channel of an open connection.
pub(crate) async fn channel(stream: UnixStream) -> Result<Channel, tonic::transport::Error> {
    let mut stream = Some(stream);
    let connector = service_fn(move |_| {
        let stream = stream
            .take()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { stream.map(TokioIo::new) }
    });
    Endpoint::from_static(PLACEHOLDER_URI)
        .connect_with_connector(connector)
        .await
}

/// The text of a connection error.
fn error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "socket refuses connections".to_owned(),
        io::ErrorKind::NotFound => "socket is gone".to_owned(),
        io::ErrorKind::PermissionDenied => "socket may not be opened: permission denied".to_owned(),
        io::ErrorKind::TimedOut => {
            format!("socket did not accept a connection in {CONNECT_TIMEOUT:?}")
        }
        _ => format!("socket cannot be dialled: {error}"),
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

    #[test]
    fn the_newest_common_version_is_selected() {
        let newest = |offered: &[&str]| {
            let offered: Vec<_> = offered.iter().map(ToString::to_string).collect();
            Version::newest(&offered).map(Version::name)
        };
        assert_eq!(
            newest(&["v1alpha1", "v1alpha3", "v1alpha2"]),
            Some("v1alpha3")
        );
        assert_eq!(newest(&["v1alpha2", "v9"]), Some("v1alpha2"));
        assert_eq!(newest(&["v1alpha4", ""]), None);
    }
}
