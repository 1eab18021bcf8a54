//! VMI and secrets to cloud-init data.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;
use uuid::Uuid;

use crate::vmi::{CloudInit, Vmi};

use super::{CloudInitData, CloudInitError, ConfigDriveMetadata, DataSource, NoCloudMetadata};

/// Secrets as the pod mounts them: directories of files. A trait, so that this crate reads no file.
pub trait SecretSource {
    /// The content of `DIRECTORY/NAME`; `None` when there is no such file.
    ///
    /// # Errors
    /// The reason in words, with the path.
    fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, String>;

    /// Names of the files in a directory, sorted, without those that begin with two dots.
    ///
    /// # Errors
    /// The reason in words, with the path; a directory that is missing is an error.
    fn names(&self, directory: &str) -> Result<Vec<String>, String>;
}

/// No secrets at all, for tools that have no pod around them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn file(&self, _directory: &str, _name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(None)
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, String> {
        Err(format!("secret {directory} is not mounted here"))
    }
}

const INSTANCE_TYPE: &str = "kubevirt.io/instancetype-name";
const CLUSTER_INSTANCE_TYPE: &str = "kubevirt.io/cluster-instancetype-name";
/// A DNS label's length.
const MAX_HOSTNAME: usize = 63;

/// Reads the VMI's first cloud-init volume; `None` when it has none.
///
/// A secret's data come before data in place, and text before base64. The secret of volume V is
/// mounted as directory V, that of an SSH credential S as `S-access-cred`.
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

/// What a volume's secrets hold.
#[derive(Default)]
struct Secret {
    user_data: Vec<u8>,
    network_data: Vec<u8>,
    /// What was asked for and not found.
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
        if let Some(bytes) = secrets.file(directory, name)? {
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

/// As Go's `StdEncoding`: line breaks are skipped, padding is required, trailing bits are not looked at.
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

/// Keys of all credentials that go this way, numbered from 0 across secrets.
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
        let failed = |message| CloudInitError::AccessCredential {
            secret: secret.to_owned(),
            message,
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

/// The cluster-wide instance type comes before the namespaced one.
pub(super) fn instance_type(vmi: &Vmi) -> String {
    let annotation = |key| vmi.annotation(key).filter(|value| !value.is_empty());
    annotation(CLUSTER_INSTANCE_TYPE)
        .or_else(|| annotation(INSTANCE_TYPE))
        .unwrap_or_default()
        .to_owned()
}

/// The firmware's UUID. KubeVirt makes up a new one when there is none; this one stays the same, so
/// that the guest does not take each boot for its first.
pub(super) fn instance_uuid(vmi: &Vmi) -> String {
    let firmware = vmi
        .spec
        .domain
        .firmware
        .as_ref()
        .map(|firmware| firmware.uuid.as_str())
        .unwrap_or_default();
    if !firmware.is_empty() {
        return firmware.to_owned();
    }
    let name = format!("{}/{}/{}", vmi.namespace(), vmi.name(), vmi.uid());
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
}

/// `spec.hostname`, else the name up to its first dot, cut to the length of a DNS label.
fn hostname(vmi: &Vmi) -> String {
    if !vmi.spec.hostname.is_empty() {
        return vmi.spec.hostname.clone();
    }
    let label = vmi.name().split('.').next().unwrap_or_default();
    label.chars().take(MAX_HOSTNAME).collect()
}
