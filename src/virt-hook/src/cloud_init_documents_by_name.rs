//! The cloud-init documents by the names under which modules get them.

use std::collections::BTreeMap;

use hook_host::CloudInitDocuments;
use serde_json::Value;

/// The non-empty documents among `user-data`, `network-data` and `meta-data`; meta data as indented JSON.
pub(crate) fn cloud_init_documents_by_name(data: &CloudInitDocuments) -> BTreeMap<String, String> {
    let value: Value = serde_json::from_str(&data.cloud_init_data_json).unwrap_or_default();
    let text = |member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let meta = match data.data_source.as_str() {
        "configDrive" => &value["ConfigDriveMetaData"],
        _ => &value["NoCloudMetaData"],
    };
    let meta = match meta {
        Value::Null => String::new(),
        meta => format!("{meta:#}\n"),
    };
    let documents = [
        ("user-data", text("UserData")),
        ("network-data", text("NetworkData")),
        ("meta-data", meta),
    ];
    let named_texts = documents.map(|(name, text)| (name.to_owned(), text));
    named_texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_documents_are_left_out() {
        let data = CloudInitDocuments {
            data_source: "noCloud".into(),
            cloud_init_data_json: r##"{"UserData":"#cloud-config\n","NetworkData":"",
                "NoCloudMetaData":{"instance-id":"i"},"ConfigDriveMetaData":null}"##
                .into(),
        };
        let documents = cloud_init_documents_by_name(&data);
        let names: Vec<_> = documents.keys().map(String::as_str).collect();
        assert_eq!(names, ["meta-data", "user-data"]);
        assert_eq!(documents["meta-data"], "{\n  \"instance-id\": \"i\"\n}\n");
    }
}
