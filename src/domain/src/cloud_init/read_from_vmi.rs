//! Reads cloud-init data from a VMI and its secrets.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use kubevirt_api::vmi::{CloudInit, Vmi};
use serde_json::Value;

use crate::cloud_init::cloud_init_data::{
    CloudInitData, ConfigDriveMetadata, DataSource, NoCloudMetadata,
};
use crate::cloud_init::error::CloudInitError;
use crate::secret_source::{SecretError, SecretSource};

/// The longest DNS label.
const MAX_HOSTNAME: usize = 63;

/// Reads the VMI's first cloud-init volume; `None` when it has none.
///
/// Data of a secret are preferred to data in the VMI, and text to base64. The secret of volume V is mounted as
/// directory V, that of an SSH credential S as `S-access-cred`.
///
/// # Errors
/// [`CloudInitError`] naming volume or secret.
pub fn read(
    vmi: &Vmi,
    secrets: &dyn SecretSource,
) -> Result<Option<CloudInitData>, CloudInitError> {
    for volume in &vmi.spec.volumes {
        if let Some(source) = &volume.cloud_init_no_cloud {
            return read_volume(vmi, &volume.name, source, DataSource::NoCloud, secrets).map(Some);
        }
        if let Some(source) = &volume.cloud_init_config_drive {
            return read_volume(vmi, &volume.name, source, DataSource::ConfigDrive, secrets)
                .map(Some);
        }
    }
    Ok(None)
}

fn read_volume(
    vmi: &Vmi,
    volume: &str,
    source: &CloudInit,
    data_source: DataSource,
    secrets: &dyn SecretSource,
) -> Result<CloudInitData, CloudInitError> {
    let keys = public_keys(vmi, data_source, secrets)?;
    let secret = Secret::read(volume, source, secrets)?;
    let user_data = first(
        volume,
        "userDataBase64",
        secret.user_data,
        &source.user_data,
        &source.user_data_base64,
    )?;
    let network_data = first(
        volume,
        "networkDataBase64",
        secret.network_data,
        &source.network_data,
        &source.network_data_base64,
    )?;
    if user_data.is_empty() && network_data.is_empty() {
        let hint = secret
            .problem
            .map(|problem| format!(" ({problem})"))
            .unwrap_or_default();
        return Err(CloudInitError::Empty {
            volume: volume.to_owned(),
            hint,
        });
    }
    let mut data = CloudInitData {
        data_source,
        no_cloud_meta_data: None,
        config_drive_meta_data: None,
        user_data,
        network_data,
        devices_data: None,
        volume_name: volume.to_owned(),
    };
    data.complete(vmi);
    if let Some(meta_data) = &mut data.no_cloud_meta_data {
        *meta_data = NoCloudMetadata {
            local_hostname: hostname(vmi),
            public_ssh_keys: keys,
            ..meta_data.clone()
        };
    } else if let Some(meta_data) = &mut data.config_drive_meta_data {
        *meta_data = ConfigDriveMetadata {
            hostname: hostname(vmi),
            public_ssh_keys: keys,
            ..meta_data.clone()
        };
    }
    Ok(data)
}

/// The data in a volume's secrets.
#[derive(Default)]
struct Secret {
    user_data: Vec<u8>,
    network_data: Vec<u8>,
    /// Why data that the VMI refers to were not found.
    problem: Option<String>,
}

impl Secret {
    /// A missing file is an error only when both kinds of data were asked for and neither is there:
    /// the two references often name one secret that holds one of them.
    fn read(
        volume: &str,
        source: &CloudInit,
        secrets: &dyn SecretSource,
    ) -> Result<Self, CloudInitError> {
        let wanted =
            |wanted: bool, names: [&str; 2]| wanted.then(|| first_file(secrets, volume, names));
        let user_data = wanted(
            source.user_data_secret_ref.is_some(),
            ["userdata", "userData"],
        );
        let network_data = wanted(
            source.network_data_secret_ref.is_some(),
            ["networkdata", "networkData"],
        );
        if let (Some(Err(user)), Some(Err(network))) = (&user_data, &network_data) {
            let message = format!("{user}; {network}");
            return Err(CloudInitError::Secret {
                volume: volume.to_owned(),
                message,
            });
        }
        let mut secret = Self::default();
        for (result, place) in [
            (user_data, &mut secret.user_data),
            (network_data, &mut secret.network_data),
        ] {
            match result {
                Some(Ok(bytes)) => *place = bytes,
                Some(Err(problem)) => secret.problem = Some(problem),
                None => {}
            }
        }
        Ok(secret)
    }
}

fn first_file(
    secrets: &dyn SecretSource,
    directory: &str,
    names: [&str; 2],
) -> Result<Vec<u8>, String> {
    for name in names {
        let file = secrets.file(directory, name);
        if let Some(bytes) = file.map_err(|error| error.to_string())? {
            return Ok(bytes);
        }
    }
    Err(format!(
        "the secret of volume {directory} has neither {} nor {}",
        names[0], names[1]
    ))
}

fn first(
    volume: &str,
    field: &'static str,
    secret: Vec<u8>,
    text: &str,
    base64: &str,
) -> Result<Vec<u8>, CloudInitError> {
    if !secret.is_empty() {
        return Ok(secret);
    }
    if !text.is_empty() {
        return Ok(text.as_bytes().to_vec());
    }
    decode_base64(base64).map_err(|error| CloudInitError::Base64 {
        volume: volume.to_owned(),
        field,
        message: error.to_string(),
    })
}

/// As Go's `StdEncoding`: line breaks are skipped, padding is required, trailing bits are ignored.
fn decode_base64(text: &str) -> Result<Vec<u8>, base64::DecodeError> {
    const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&base64::alphabet::STANDARD, CONFIG);
    let text: Vec<u8> = text
        .bytes()
        .filter(|byte| !matches!(byte, b'\r' | b'\n'))
        .collect();
    ENGINE.decode(text)
}

/// Keys of all credentials that this kind of image carries, numbered from 0 across secrets.
fn public_keys(
    vmi: &Vmi,
    data_source: DataSource,
    secrets: &dyn SecretSource,
) -> Result<BTreeMap<String, String>, CloudInitError> {
    let mut keys = BTreeMap::new();
    for credential in &vmi.spec.access_credentials {
        let Some(secret) = ssh_secret(credential, data_source) else {
            continue;
        };
        let failed = |error: SecretError| CloudInitError::AccessCredential {
            secret: secret.to_owned(),
            message: error.to_string(),
        };
        let directory = format!("{secret}-access-cred");
        for name in secrets.names(&directory).map_err(failed)? {
            let bytes = secrets
                .file(&directory, &name)
                .map_err(failed)?
                .unwrap_or_default();
            if !bytes.is_empty() {
                keys.insert(
                    keys.len().to_string(),
                    String::from_utf8_lossy(&bytes).into_owned(),
                );
            }
        }
    }
    Ok(keys)
}

/// The secret of an SSH credential that is propagated through this kind of image.
fn ssh_secret(credential: &Value, data_source: DataSource) -> Option<&str> {
    let ssh = credential.get("sshPublicKey")?;
    let method = ssh.get("propagationMethod")?.get(data_source.name())?;
    let secret = ssh
        .get("source")?
        .get("secret")?
        .get("secretName")?
        .as_str()?;
    (!method.is_null() && !secret.is_empty()).then_some(secret)
}

/// `spec.hostname`, else the name up to its first dot, cut to the length of a DNS label.
fn hostname(vmi: &Vmi) -> String {
    if !vmi.spec.hostname.is_empty() {
        return vmi.spec.hostname.clone();
    }
    let label = vmi.name().split('.').next().unwrap_or_default();
    label.chars().take(MAX_HOSTNAME).collect()
}
