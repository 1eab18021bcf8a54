//! Handles the requests about AMD SEV: the platform data and the launch measurement, by which the guest's owner attests
//! the guest, and the injection of the owner's secret.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::convert::SEV_FIRMWARE;
use libvirt::{Domain, LaunchSecret, LaunchSecurityInfo, SevInfo};
use proto::cmd::v1::{LaunchMeasurementResponse, Response as Answer, SevInfoResponse};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{failed, ok};
use crate::blocking;
use crate::blocking::NoAnswer;
use crate::libvirt_client::{COMMAND, CallError, QUICK};
use crate::manager::VmContext;

/// How long reading the firmware, a few megabytes, may take.
const FIRMWARE_READ_TIMEOUT: Duration = Duration::from_secs(3);

/// A request about a confidential guest failed.
#[derive(Debug, thiserror::Error)]
enum LaunchSecurityError {
    /// A call to libvirt failed.
    #[error("{}", .0.message())]
    Call(#[from] CallError),
    /// The firmware, whose digest is part of the answer, could not be read.
    #[error("reading the firmware of SEV guests, {path}: {source}")]
    Firmware {
        /// The firmware.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// Reading the firmware timed out.
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    /// The guest was launched without SEV.
    #[error("the guest has no launch measurement: its VMI asks for no SEV")]
    NoMeasurement,
    /// The options of the secret are not valid JSON.
    #[error("No valid secret options present in command server request")]
    Options,
    /// A part of the secret is missing.
    #[error("{0} is required")]
    Missing(&'static str),
    /// The answer could not be encoded.
    #[error("encoding the answer: {0}")]
    Encode(#[from] serde_json::Error),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlatformInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pdh: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cert_chain: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MeasurementInfo<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    measurement: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    api_major: u64,
    #[serde(skip_serializing_if = "is_zero")]
    api_minor: u64,
    #[serde(rename = "buildID", skip_serializing_if = "is_zero")]
    build_id: u64,
    #[serde(skip_serializing_if = "is_zero")]
    policy: u64,
    #[serde(rename = "loaderSHA")]
    loader_sha: String,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Deserialize)]
struct SecretOptions {
    #[serde(default)]
    header: String,
    #[serde(default)]
    secret: String,
}

/// The SEV platform data of the node.
pub(super) async fn sev_info(vm: &VmContext) -> SevInfoResponse {
    let (response, sev_info) = split(sev_info_json(vm).await);
    SevInfoResponse { response, sev_info }
}

async fn sev_info_json(vm: &VmContext) -> Result<Vec<u8>, LaunchSecurityError> {
    let query = vm
        .client
        .libvirt("asking for SEV", QUICK, |hypervisor| hypervisor.sev_info());
    let SevInfo { pdh, cert_chain } = query.await?;
    Ok(serde_json::to_vec(&PlatformInfo {
        pdh: &pdh,
        cert_chain: &cert_chain,
    })?)
}

/// The launch measurement of the guest.
pub(super) async fn launch_measurement(vm: &VmContext) -> LaunchMeasurementResponse {
    let (response, launch_measurement) = split(measurement_json(vm).await);
    LaunchMeasurementResponse {
        response,
        launch_measurement,
    }
}

async fn measurement_json(vm: &VmContext) -> Result<Vec<u8>, LaunchSecurityError> {
    let domain = vm.client.require_domain().await?;
    let query = |domain: &dyn Domain| domain.launch_security_info();
    let info = vm
        .client
        .on(&domain, "asking for the launch measurement", QUICK, query);
    let LaunchSecurityInfo {
        measurement,
        api_major,
        api_minor,
        build_id,
        policy,
    } = info.await?;
    if measurement.is_empty() {
        return Err(LaunchSecurityError::NoMeasurement);
    }
    let firmware = Path::new(&vm.boot_resources.facts.ovmf_path).join(SEV_FIRMWARE);
    Ok(serde_json::to_vec(&MeasurementInfo {
        measurement: &measurement,
        api_major,
        api_minor,
        build_id,
        policy,
        loader_sha: sha256_of(firmware).await?,
    })?)
}

async fn sha256_of(path: PathBuf) -> Result<String, LaunchSecurityError> {
    let read = move || {
        let mut hash = Sha256::new();
        File::open(&path)
            .and_then(|mut file| io::copy(&mut file, &mut hash))
            .map_err(|source| LaunchSecurityError::Firmware { path, source })?;
        Ok(format!("{:x}", hash.finalize()))
    };
    blocking::file_call(
        "reading the firmware of SEV guests",
        FIRMWARE_READ_TIMEOUT,
        read,
    )
    .await?
}

/// Injects the owner's secret into the guest.
pub(super) async fn inject_secret(vm: &VmContext, options: &[u8]) -> Answer {
    match inject(vm, options).await {
        Ok(()) => ok(),
        Err(error) => failed(error),
    }
}

async fn inject(vm: &VmContext, options: &[u8]) -> Result<(), LaunchSecurityError> {
    let options = serde_json::from_slice(options).map_err(|_| LaunchSecurityError::Options)?;
    let SecretOptions { header, secret } = options;
    if header.is_empty() {
        return Err(LaunchSecurityError::Missing("Header"));
    }
    if secret.is_empty() {
        return Err(LaunchSecurityError::Missing("Secret"));
    }
    let secret = LaunchSecret { header, secret };
    let domain = vm.client.require_domain().await?;
    let set = move |domain: &dyn Domain| domain.set_launch_secret(&secret);
    Ok(vm
        .client
        .on(&domain, "setting the launch secret", COMMAND, set)
        .await?)
}

fn split(json: Result<Vec<u8>, LaunchSecurityError>) -> (Option<Answer>, Vec<u8>) {
    match json {
        Ok(json) => (Some(ok()), json),
        Err(error) => (Some(failed(error)), Vec::new()),
    }
}
