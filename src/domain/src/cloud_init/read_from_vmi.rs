//! Reads cloud-init data from a VMI and its secrets.

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use kubevirt_api::vmi::{CloudInit, SecretReference, Vmi};

use crate::cloud_init::cloud_init_data::{CloudInitData, DataSource};
use crate::cloud_init::error::CloudInitError;
use crate::cloud_init::instance_metadata::{ConfigDriveMetadata, NoCloudMetadata};
use crate::cloud_init::ssh_public_keys::read_public_keys;
use crate::secret_source::SecretSource;

/// The maximum length of a DNS label.
const MAX_HOSTNAME: usize = 63;

/// Reads the data of the VMI's first cloud-init volume; `None` if it has none.
///
/// Data in a secret has precedence over data in the VMI, and text over base64. The secret of a volume V is mounted as
/// directory V, that of an SSH credential S as `S-access-cred`.
///
/// # Errors
/// [`CloudInitError`], which names the volume or secret.
pub fn read(
    vmi: &Vmi,
    secrets: &dyn SecretSource,
) -> Result<Option<CloudInitData>, CloudInitError> {
    first_volume(vmi)
        .map(|(volume, source, data_source)| read_volume(vmi, volume, source, data_source, secrets))
        .transpose()
}

/// Why data of a secret that the VMI's first cloud-init volume refers to are missing, if [`read`] succeeds without
/// them. `None` if both references name one secret: it often has only one kind of data.
pub fn missing_secret_data(vmi: &Vmi, secrets: &dyn SecretSource) -> Option<String> {
    let (volume, source, _) = first_volume(vmi)?;
    let name = |secret: &Option<SecretReference>| secret.as_ref().map(|secret| secret.name.clone());
    if name(&source.user_data_secret_ref) == name(&source.network_data_secret_ref) {
        return None;
    }
    Secret::read(volume, source, secrets).ok()?.error
}

/// The VMI's first cloud-init volume: its name and its source.
fn first_volume(vmi: &Vmi) -> Option<(&str, &CloudInit, DataSource)> {
    vmi.spec.volumes.iter().find_map(|volume| {
        let no_cloud = volume.cloud_init_no_cloud.as_ref();
        let config_drive = volume.cloud_init_config_drive.as_ref();
        let (source, data_source) = no_cloud
            .map(|source| (source, DataSource::NoCloud))
            .or_else(|| config_drive.map(|source| (source, DataSource::ConfigDrive)))?;
        Some((volume.name.as_str(), source, data_source))
    })
}

fn read_volume(
    vmi: &Vmi,
    volume: &str,
    source: &CloudInit,
    data_source: DataSource,
    secrets: &dyn SecretSource,
) -> Result<CloudInitData, CloudInitError> {
    let keys = read_public_keys(vmi, data_source, secrets)?;
    let secret = Secret::read(volume, source, secrets)?;
    let user_data = first_source(
        volume,
        "userDataBase64",
        secret.user_data,
        &source.user_data,
        &source.user_data_base64,
    )?;
    let network_data = first_source(
        volume,
        "networkDataBase64",
        secret.network_data,
        &source.network_data,
        &source.network_data_base64,
    )?;
    if user_data.is_empty() && network_data.is_empty() {
        let hint = secret
            .error
            .map(|error| format!(" ({error})"))
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
    /// Why data that the VMI refers to was not found.
    error: Option<String>,
}

impl Secret {
    /// A missing file is an error only if the VMI refers to secrets for both kinds of data and neither is found: the
    /// two references often name one secret, which contains only one kind.
    fn read(
        volume: &str,
        source: &CloudInit,
        secrets: &dyn SecretSource,
    ) -> Result<Self, CloudInitError> {
        let read_if = |is_referenced: bool, names: [&str; 2]| {
            is_referenced.then(|| first_file(secrets, volume, names))
        };
        let user_data = read_if(
            source.user_data_secret_ref.is_some(),
            ["userdata", "userData"],
        );
        let network_data = read_if(
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
        for (result, target) in [
            (user_data, &mut secret.user_data),
            (network_data, &mut secret.network_data),
        ] {
            match result {
                Some(Ok(bytes)) => *target = bytes,
                Some(Err(error)) => secret.error = Some(error),
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

/// The data of the first source that has some: the secret, the text, or the base64 field.
fn first_source(
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

/// Decodes base64 as Go's `StdEncoding` does: line breaks are skipped, padding is required, trailing bits are ignored.
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

/// `spec.hostname`, else the VMI's name up to its first dot, cut to the length of a DNS label.
fn hostname(vmi: &Vmi) -> String {
    if !vmi.spec.hostname.is_empty() {
        return vmi.spec.hostname.clone();
    }
    let label = vmi.name().split('.').next().unwrap_or_default();
    label.chars().take(MAX_HOSTNAME).collect()
}
