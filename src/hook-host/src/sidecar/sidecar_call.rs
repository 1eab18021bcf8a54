//! A sidecar, and calls of it, each on its own connection.

use std::path::PathBuf;
use std::time::Duration;

use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tonic::Status;
use tonic::transport::Channel;

use super::dial_unix_socket;
use super::protocol_version::Version;
use crate::Subscription;
use crate::cloud_init::CloudInitAnswer;
use crate::printable::printable;

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
            let stream = dial_unix_socket::connect(&self.socket).await;
            let stream = stream
                .map_err(|error| SidecarError::Unreachable(dial_unix_socket::error_text(&error)))?;
            let channel = dial_unix_socket::channel(stream).await;
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
