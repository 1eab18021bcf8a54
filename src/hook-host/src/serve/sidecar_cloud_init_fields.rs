//! Converts between the two cloud-init fields of a sidecar call and the chain's documents.

use serde_json::{Map, Value};

use crate::CloudInitDocuments;
use crate::cloud_init::{no_cloud_source, parse_object, string_member};

type Object = Map<String, Value>;

/// Decodes a request. The `CloudInitData` is used if there is one; older launchers send a
/// `CloudInitNoCloudSource` only.
pub(super) fn decode(data: &[u8], no_cloud: &[u8]) -> Result<CloudInitDocuments, String> {
    let data = match parse_object(data, "the CloudInitData")? {
        Some(data) => data,
        None => parse_object(no_cloud, "the CloudInitNoCloudSource")?
            .map(|source| from_no_cloud_source(&source))
            .ok_or("the call brings no cloud-init data")?,
    };
    let data_source = match string_member(&data, "DataSource") {
        "" => "noCloud".to_owned(),
        source => source.to_owned(),
    };
    Ok(CloudInitDocuments {
        data_source,
        cloud_init_data_json: Value::Object(data).to_string(),
    })
}

/// Encodes the answer: the `CloudInitData`, and the `CloudInitNoCloudSource` that KubeVirt uses
/// instead if the data has no user data or no meta data.
pub(super) fn encode(documents: CloudInitDocuments) -> Result<(Vec<u8>, Vec<u8>), String> {
    let json = documents.cloud_init_data_json;
    let data = parse_object(json.as_bytes(), "the CloudInitData")?.unwrap_or_default();
    Ok((json.into_bytes(), no_cloud_source(&data).into_bytes()))
}

/// The `CloudInitData` with the texts of a `CloudInitNoCloudSource`.
fn from_no_cloud_source(source: &Object) -> Object {
    let mut data = Object::new();
    data.insert("DataSource".to_owned(), "noCloud".into());
    data.insert(
        "UserData".to_owned(),
        string_member(source, "userData").into(),
    );
    data.insert(
        "NetworkData".to_owned(),
        string_member(source, "networkData").into(),
    );
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"DataSource":"configDrive","ConfigDriveMetaData":{"a":1},"UserData":"u","NetworkData":"","New":[1]}"#;

    #[test]
    fn cloud_init_data_is_not_changed_by_conversion() {
        let documents = decode(DATA.as_bytes(), b"{}").unwrap();
        assert_eq!(documents.data_source, "configDrive");
        let (data, source) = encode(documents).unwrap();
        assert_eq!(data, DATA.as_bytes());
        assert_eq!(source, br#"{"userData":"u"}"#);
    }

    #[test]
    fn the_no_cloud_source_of_an_older_launcher_is_decoded() {
        let documents = decode(b"", br#"{"userData":"u","networkData":"n"}"#).unwrap();
        assert_eq!(documents.data_source, "noCloud");
        let (_, source) = encode(documents).unwrap();
        assert_eq!(source, br#"{"userData":"u","networkData":"n"}"#);
        assert_eq!(decode(b"null", b"{}").unwrap().data_source, "noCloud");
    }

    #[test]
    fn error_names_the_invalid_field_and_contains_no_data() {
        assert!(decode(b"[]", b"").unwrap_err().contains("CloudInitData"));
        let secret = decode(br#""{\"UserData\":\"SECRET\"}""#, b"").unwrap_err();
        assert!(!secret.contains("SECRET"), "{secret}");
        assert!(decode(b"", b"[]").unwrap_err().contains("NoCloudSource"));
        assert!(
            decode(b"", b"null")
                .unwrap_err()
                .contains("no cloud-init data")
        );
    }
}
