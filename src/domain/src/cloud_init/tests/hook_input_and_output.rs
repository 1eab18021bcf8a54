//! Cloud-init data that hooks receive and return.

use super::*;

#[test]
fn hooks_receive_kubevirts_json() {
    let data = read_data(&no_cloud(json!({"userData": "u"})), &NoSecrets);
    let expected = json!({
        "DataSource": "noCloud",
        "NoCloudMetaData": {"instance-id": "6a375988-78d3-5007-949e-a176270c5f03", "local-hostname": "my-vm"},
        "ConfigDriveMetaData": null, "UserData": "u", "NetworkData": "", "DevicesData": null, "VolumeName": "ci",
    });
    assert_eq!(
        serde_json::from_str::<Value>(&data.to_json()).unwrap(),
        expected
    );
    assert_eq!(data.merge_hook_output(&data.to_json()).unwrap(), data);
}

#[test]
fn binary_data_that_hooks_do_not_change_is_kept() {
    let mut data = read_data(
        &no_cloud(json!({"userDataBase64": "H4sIAAAA/w=="})),
        &NoSecrets,
    );
    assert_eq!(data.user_data, b"\x1f\x8b\x08\x00\x00\x00\xff");
    let json = data.to_json();
    assert_eq!(data.merge_hook_output(&json).unwrap(), data);
    data.user_data = b"text".to_vec();
    let changed = json.replace("noCloud", "configDrive");
    assert_eq!(
        data.merge_hook_output(&changed).unwrap().data_source,
        DataSource::ConfigDrive
    );
}

#[test]
fn invalid_hook_output_is_an_error_without_secret_values() {
    let data = read_data(&no_cloud(json!({"userData": "u"})), &NoSecrets);
    for (json, message) in [
        ("nonsense", "not valid CloudInitData"),
        (r#"{"DataSource":"floppy"}"#, "not valid CloudInitData"),
        (
            r#"{"DataSource":"noCloud","UserData":"u"}"#,
            "neither NoCloudMetaData",
        ),
        (
            r#"{"DataSource":"noCloud","NoCloudMetaData":{"instance-id":"i"}}"#,
            "no UserData",
        ),
    ] {
        let error = data.merge_hook_output(json).unwrap_err().to_string();
        assert!(error.contains(message), "{json}: {error}");
    }
    let secret = r#"{"DataSource":"noCloud","NoCloudMetaData":"SECRET"}"#;
    let error = data.merge_hook_output(secret).unwrap_err().to_string();
    assert!(error.contains("at line 1 column "), "{error}");
    assert!(!error.contains("SECRET"), "{error}");
    let large = " ".repeat(MAX_JSON_BYTES + 1);
    assert!(matches!(
        data.merge_hook_output(&large),
        Err(HookOutputError::TooLarge(_))
    ));
}
