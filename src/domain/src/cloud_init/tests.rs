//! Cloud-init data of VMIs and secrets, and the files of images.

mod hook_input_and_output;
mod tagged_devices;

use std::collections::BTreeMap;

use kubevirt_api::vmi::Vmi;
use serde_json::{Value, json};

use super::*;
use crate::host_numa_topology::{HostTopology, UnknownTopology};
use crate::libvirt_spec::DomainSpec;
use crate::secret_source::{NoSecrets, SecretError, SecretSource};

/// Contents by directory and file name.
struct SecretFiles(BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>);

impl SecretSource for SecretFiles {
    fn file(&self, directory: &str, name: &str) -> Result<Option<Vec<u8>>, SecretError> {
        Ok(self
            .0
            .get(directory)
            .and_then(|files| files.get(name))
            .map(|content| content.as_bytes().to_vec()))
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, SecretError> {
        let files = self
            .0
            .get(directory)
            .ok_or_else(|| SecretError::NotMounted(directory.to_owned()))?;
        Ok(files.keys().map(|name| (*name).to_owned()).collect())
    }
}

fn mounted_secrets(files: &[(&'static str, &'static str, &'static str)]) -> SecretFiles {
    let mut directories: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for (directory, name, content) in files {
        directories
            .entry(*directory)
            .or_default()
            .insert(*name, *content);
    }
    SecretFiles(directories)
}

/// A VMI with one cloud-init volume; `more` is merged into its spec.
fn vmi(source: Value, more: &Value) -> Vmi {
    let mut spec = json!({
        "volumes": [{"name": "root", "emptyDisk": {"capacity": "1Gi"}}, {"name": "ci"}],
        "domain": {"firmware": {"uuid": "6a375988-78d3-5007-949e-a176270c5f03"}},
    });
    for (key, value) in source.as_object().unwrap() {
        spec["volumes"][1][key] = value.clone();
    }
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let metadata = json!({"name": "my-vm.example", "namespace": "ns", "uid": "u"});
    Vmi::from_json(
        json!({"metadata": metadata, "spec": spec})
            .to_string()
            .as_bytes(),
    )
    .unwrap()
}

fn no_cloud(source: Value) -> Vmi {
    vmi(json!({"cloudInitNoCloud": source}), &json!({}))
}

fn read_data(vmi: &Vmi, secrets: &dyn SecretSource) -> CloudInitData {
    read(vmi, secrets).unwrap().unwrap()
}

fn files_as_text(data: &CloudInitData) -> Vec<(&'static str, String)> {
    let files = files(data).unwrap();
    files
        .into_iter()
        .map(|file| (file.path, String::from_utf8(file.content).unwrap()))
        .collect()
}

#[test]
fn no_cloud_image_has_meta_data_user_data_and_network_config() {
    let data = read_data(
        &no_cloud(json!({"userData": "#cloud-config\n", "networkData": "version: 2\n"})),
        &NoSecrets,
    );
    assert_eq!(data.data_source.volume_label(), "cidata");
    assert_eq!(data.volume_name, "ci");
    let meta = r#"{"instance-id":"6a375988-78d3-5007-949e-a176270c5f03","local-hostname":"my-vm"}"#;
    let expected = [
        ("meta-data", meta),
        ("user-data", "#cloud-config\n"),
        ("network-config", "version: 2\n"),
    ];
    assert_eq!(
        files_as_text(&data),
        expected.map(|(path, content)| (path, content.to_owned()))
    );
}

#[test]
fn config_drive_image_has_openstack_files_with_tagged_devices() {
    let source = json!({"cloudInitConfigDrive": {"userDataBase64": "I2Nsb3Vk\nLWNvbmZpZwo="}});
    let mut data = read_data(&vmi(source, &json!({"hostname": "host"})), &NoSecrets);
    data.devices_data = Some(vec![DeviceData {
        kind: "nic".into(),
        bus: "pci".into(),
        address: "0000:01:00.0".into(),
        ..Default::default()
    }]);
    let meta = concat!(
        r#"{"instance_id":"my-vm.example.ns","hostname":"host","uuid":"6a375988-78d3-5007-949e-a176270c5f03","#,
        r#""devices":[{"type":"nic","bus":"pci","address":"0000:01:00.0","tags":[]}]}"#
    );
    let expected = [
        ("openstack/latest/meta_data.json", meta),
        ("openstack/latest/user_data", "#cloud-config\n"),
    ];
    assert_eq!(
        files_as_text(&data),
        expected.map(|(path, content)| (path, content.to_owned()))
    );
    assert_eq!(data.data_source.volume_label(), "config-2");
}

#[test]
fn secrets_have_precedence_over_inline_data() {
    let source = json!({"secretRef": {"name": "s"}, "networkDataSecretRef": {"name": "s"}, "userData": "in place"});
    let vmi = no_cloud(source);
    let data = read_data(&vmi, &mounted_secrets(&[("ci", "userdata", "secret")]));
    assert_eq!(
        (data.user_data.as_slice(), data.network_data.as_slice()),
        (&b"secret"[..], &b""[..])
    );
    let data = read_data(
        &vmi,
        &mounted_secrets(&[
            ("ci", "userData", "other name"),
            ("ci", "networkdata", "net"),
        ]),
    );
    assert_eq!(
        (data.user_data.as_slice(), data.network_data.as_slice()),
        (&b"other name"[..], &b"net"[..])
    );
    let error = read(&vmi, &NoSecrets).unwrap_err().to_string();
    assert!(
        error.starts_with("no cloud-init data-source found at volume: ci"),
        "{error}"
    );
}

#[test]
fn volumes_without_data_are_errors() {
    let message = "userDataBase64, userData, networkDataBase64 or networkData is required for a cloud-init data source";
    let error = read(&no_cloud(json!({})), &NoSecrets)
        .unwrap_err()
        .to_string();
    assert_eq!(error, format!("volume ci: {message}"));
    let error = read(&no_cloud(json!({"secretRef": {"name": "s"}})), &NoSecrets)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(message) && error.contains("neither userdata nor userData"),
        "{error}"
    );
    let error = read(&no_cloud(json!({"userDataBase64": "%"})), &NoSecrets)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("volume ci: userDataBase64 is not base64"),
        "{error}"
    );
}

#[test]
fn secret_without_the_data_that_the_vmi_refers_to_is_told() {
    let user = json!({"userData": "u"});
    let (one, two) = (json!({"name": "one"}), json!({"name": "two"}));
    let missing_network = "the secret of volume ci has neither networkdata nor networkData";
    let missing_user = "the secret of volume ci has neither userdata nor userData";
    for (source, told) in [
        (user.clone(), None),
        (
            json!({"userData": "u", "networkDataSecretRef": one}),
            Some(missing_network),
        ),
        (
            json!({"networkData": "n", "secretRef": one}),
            Some(missing_user),
        ),
        // Often one secret, with one kind of data.
        (
            json!({"userData": "u", "secretRef": one, "networkDataSecretRef": one}),
            None,
        ),
        (
            json!({"secretRef": one, "networkDataSecretRef": two}),
            Some(missing_network),
        ),
    ] {
        let has_user_data = told == Some(missing_network);
        let secrets = match has_user_data {
            true => mounted_secrets(&[("ci", "userdata", "u")]),
            false => mounted_secrets(&[]),
        };
        for kind in ["cloudInitNoCloud", "cloudInitConfigDrive"] {
            let vmi = vmi(json!({ kind: source }), &json!({}));
            let missing = missing_secret_data(&vmi, &secrets);
            assert_eq!(missing.as_deref(), told, "{source}");
        }
    }
}

#[test]
fn ssh_keys_are_numbered_across_secrets() {
    let credential = |secret: &str, method: &str| json!({"sshPublicKey": {"source": {"secret": {"secretName": secret}}, "propagationMethod": {method: {}}}});
    let credentials = json!([
        credential("one", "noCloud"),
        credential("two", "configDrive"),
        credential("three", "noCloud")
    ]);
    let vmi = vmi(
        json!({"cloudInitNoCloud": {"userData": "u"}}),
        &json!({"accessCredentials": credentials}),
    );
    let secrets = mounted_secrets(&[
        ("one-access-cred", "a", "key a"),
        ("one-access-cred", "b", ""),
        ("two-access-cred", "c", "key c"),
        ("three-access-cred", "d", "key d"),
    ]);
    let keys = read_data(&vmi, &secrets)
        .no_cloud_meta_data
        .unwrap()
        .public_ssh_keys;
    assert_eq!(
        keys,
        BTreeMap::from([("0".into(), "key a".into()), ("1".into(), "key d".into())])
    );
    let error = read(&vmi, &NoSecrets).unwrap_err().to_string();
    assert!(
        error.starts_with("access credential secret one:"),
        "{error}"
    );
}

#[test]
fn instance_id_is_stable_without_a_firmware_uuid() {
    let vmi = vmi(
        json!({"cloudInitNoCloud": {"userData": "u"}}),
        &json!({"domain": {}}),
    );
    let id = read_data(&vmi, &NoSecrets)
        .no_cloud_meta_data
        .unwrap()
        .instance_id;
    assert_eq!(id.len(), 36);
    assert_eq!(
        read_data(&vmi, &NoSecrets)
            .no_cloud_meta_data
            .unwrap()
            .instance_id,
        id
    );
    let none = Vmi::from_json(br#"{"metadata":{"name":"vm"},"spec":{}}"#).unwrap();
    assert_eq!(read(&none, &NoSecrets).unwrap(), None);
}
