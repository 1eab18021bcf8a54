//! One call of a sidecar, on a connection of its own.

use std::path::PathBuf;
use std::time::Duration;

use proto::hooks::{v1alpha1, v1alpha2, v1alpha3};
use tonic::Status;
use tonic::transport::Channel;

use super::{Version, dial};
use crate::wasm::Subscription;

/// A sidecar that introduced itself.
#[derive(Debug, Clone)]
pub(crate) struct Sidecar {
    pub(crate) socket: PathBuf,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) hook_points: Vec<Subscription>,
}

/// A sidecar's answer at PreCloudInitIso, not yet looked at.
#[derive(Debug)]
pub(crate) struct CloudInitAnswer {
    /// KubeVirt's `CloudInitData` as JSON.
    pub(crate) data: Vec<u8>,
    /// KubeVirt's `CloudInitNoCloudSource` as JSON, from sidecars that know nothing newer.
    pub(crate) no_cloud_source: Vec<u8>,
}

/// A call that gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SidecarError {
    /// Its socket cannot be dialled any more.
    #[error("{0}")]
    Unreachable(String),
    /// It answered with an error, or the connection broke.
    #[error("{0}")]
    Status(String),
    /// It took too long.
    #[error("no answer within {0:?}")]
    Deadline(Duration),
    /// Its version does not have this call.
    #[error("{0} does not have this call")]
    NoSuchCall(&'static str),
}

/// A call's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long it may take, connecting included.
    pub(crate) deadline: Duration,
    /// How large its answer may be, in bytes.
    pub(crate) output: usize,
}

/// The same call in each version that has it; the messages are the same, their types are not.
macro_rules! call {
    ($channel:expr, $output:expr, $line:ident, $method:ident, $params:expr) => {{
        let client = $line::callbacks_client::CallbacksClient::new($channel);
        let mut client = client.max_decoding_message_size($output);
        client
            .$method($params)
            .await
            .map_err(|status| SidecarError::Status(words(&status)))?
            .into_inner()
    }};
}

impl Sidecar {
    pub(crate) async fn on_define_domain(
        &self,
        bounds: Bounds,
        vmi: &str,
        domain_xml: &str,
    ) -> Result<Vec<u8>, SidecarError> {
        let (domain_xml, vmi) = (domain_xml.as_bytes().to_vec(), vmi.as_bytes().to_vec());
        self.within(bounds, async |channel| {
            Ok(match self.version {
                Version::V1alpha1 => {
                    let params = v1alpha1::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, bounds.output, v1alpha1, on_define_domain, params).domain_xml
                }
                Version::V1alpha2 => {
                    let params = v1alpha2::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, bounds.output, v1alpha2, on_define_domain, params).domain_xml
                }
                Version::V1alpha3 => {
                    let params = v1alpha3::OnDefineDomainParams { domain_xml, vmi };
                    call!(channel, bounds.output, v1alpha3, on_define_domain, params).domain_xml
                }
            })
        })
        .await
    }

    pub(crate) async fn pre_cloud_init_iso(
        &self,
        bounds: Bounds,
        vmi: &str,
        data: String,
        no_cloud_source: String,
    ) -> Result<CloudInitAnswer, SidecarError> {
        let vmi = vmi.as_bytes().to_vec();
        let (cloud_init_data, cloud_init_no_cloud_source) =
            (data.into_bytes(), no_cloud_source.into_bytes());
        self.within(bounds, async |channel| match self.version {
            Version::V1alpha1 => Err(SidecarError::NoSuchCall("v1alpha1")),
            Version::V1alpha2 => {
                let params = v1alpha2::PreCloudInitIsoParams {
                    cloud_init_no_cloud_source,
                    vmi,
                    cloud_init_data,
                };
                let answer = call!(channel, bounds.output, v1alpha2, pre_cloud_init_iso, params);
                Ok(CloudInitAnswer {
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
                let answer = call!(channel, bounds.output, v1alpha3, pre_cloud_init_iso, params);
                Ok(CloudInitAnswer {
                    data: answer.cloud_init_data,
                    no_cloud_source: answer.cloud_init_no_cloud_source,
                })
            }
        })
        .await
    }

    pub(crate) async fn shutdown(&self, bounds: Bounds) -> Result<(), SidecarError> {
        self.within(bounds, async |channel| match self.version {
            Version::V1alpha1 | Version::V1alpha2 => {
                Err(SidecarError::NoSuchCall(self.version.name()))
            }
            Version::V1alpha3 => {
                let params = v1alpha3::ShutdownParams {};
                call!(channel, bounds.output, v1alpha3, shutdown, params);
                Ok(())
            }
        })
        .await
    }

    async fn within<T>(
        &self,
        bounds: Bounds,
        call: impl AsyncFnOnce(Channel) -> Result<T, SidecarError>,
    ) -> Result<T, SidecarError> {
        let work = async {
            let stream = dial::connect(&self.socket).await;
            let stream = stream.map_err(|error| SidecarError::Unreachable(dial::reason(&error)))?;
            let channel = dial::channel(stream).await;
            call(channel.map_err(|error| SidecarError::Unreachable(error.to_string()))?).await
        };
        match tokio::time::timeout(bounds.deadline, work).await {
            Ok(answer) => answer,
            Err(_) => Err(SidecarError::Deadline(bounds.deadline)),
        }
    }
}

/// A status as one reads it: its code and its message.
pub(crate) fn words(status: &Status) -> String {
    let message: String = status.message().chars().take(2048).collect();
    format!("{:?}: {message}", status.code())
}
