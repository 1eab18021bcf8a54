//! Converts cloud-init data between KubeVirt's JSON, which sidecars get, and documents, which modules get.

use domain_xml::host::{Budget, Change, ChangeKind};
use serde_json::error::Category;
use serde_json::{Map, Value};

const USER_DATA: &str = "user-data";
const NETWORK_DATA: &str = "network-data";
const META_DATA: &str = "meta-data";

/// Cloud-init data as KubeVirt's `CloudInitData` object; unknown members are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CloudInit {
    data_source: String,
    data: Map<String, Value>,
}

impl CloudInit {
    /// Applies an answer and returns the new data with the changes. The cost is linear in the length of the texts.
    pub(crate) fn apply(
        &self,
        answer: &CloudInitAnswer,
        budget: &Budget<'_>,
    ) -> Result<(Self, Vec<Change>), String> {
        if !budget.spend_text(answer.len()) {
            return Ok((self.clone(), Vec::new()));
        }
        let after = match answer {
            CloudInitAnswer::Documents(documents) => self.with_documents(documents)?,
            CloudInitAnswer::Json {
                data,
                no_cloud_source,
            } => self.with_json(data, no_cloud_source)?,
        };
        let changes = self.changes(&after);
        Ok((after, changes))
    }

    /// Parses KubeVirt's JSON.
    pub(crate) fn decode(documents: &CloudInitDocuments) -> Result<Self, String> {
        let data = serde_json::from_str(&documents.cloud_init_data_json)
            .map_err(|error| not_an_object("the cloud-init data", &error))?;
        Ok(Self {
            data_source: documents.data_source.clone(),
            data,
        })
    }

    /// Reconstructs the data from recorded documents. Members that modules do not see are missing.
    pub(crate) fn from_documents(
        data_source: &str,
        documents: &[(String, String)],
    ) -> Result<Self, String> {
        let empty = Self {
            data_source: data_source.to_owned(),
            data: Map::new(),
        };
        empty.with_documents(documents)
    }

    /// Renders KubeVirt's JSON.
    pub(crate) fn encode(self) -> CloudInitDocuments {
        let cloud_init_data_json = self.json();
        CloudInitDocuments {
            data_source: self.data_source,
            cloud_init_data_json,
        }
    }

    pub(crate) fn data_source(&self) -> &str {
        &self.data_source
    }

    /// The JSON for sidecars.
    pub(crate) fn json(&self) -> String {
        Value::Object(self.data.clone()).to_string()
    }

    /// KubeVirt's `CloudInitNoCloudSource`, for older sidecars.
    pub(crate) fn no_cloud_source(&self) -> String {
        no_cloud_source(&self.data)
    }

    /// Applies a sidecar's answer by KubeVirt's rule: `data` is used if it has user data and meta
    /// data; otherwise user and network data of the `CloudInitNoCloudSource` are used. (KubeVirt then
    /// loses the meta data; here it is kept.)
    fn with_json(&self, data: &[u8], no_cloud_source: &[u8]) -> Result<Self, String> {
        let data = parse_object(data, "its CloudInitData")?;
        if let Some(data) = data.filter(is_complete) {
            let source = string_member(&data, "DataSource");
            let data_source = if source.is_empty() {
                self.data_source.clone()
            } else {
                source.to_owned()
            };
            return Ok(Self { data_source, data });
        }
        let source = parse_object(no_cloud_source, "its CloudInitNoCloudSource")?.ok_or(
            "neither complete CloudInitData (user data and meta data) nor a CloudInitNoCloudSource",
        )?;
        let mut updated = self.clone();
        updated.set("UserData", string_member(&source, "userData"));
        updated.set("NetworkData", string_member(&source, "networkData"));
        Ok(updated)
    }

    /// Names and texts of the documents for WASM hooks. Empty network data and absent meta data are left out.
    pub(crate) fn documents(&self) -> Vec<(String, String)> {
        let mut documents = vec![(
            USER_DATA.to_owned(),
            string_member(&self.data, "UserData").to_owned(),
        )];
        let network = string_member(&self.data, "NetworkData");
        if !network.is_empty() {
            documents.push((NETWORK_DATA.to_owned(), network.to_owned()));
        }
        if let Some(meta) = self.meta_data() {
            documents.push((META_DATA.to_owned(), meta.to_string()));
        }
        documents
    }

    /// Applies the documents that a WASM hook returned: all that it got, and network data even if there was none.
    fn with_documents(&self, documents: &[(String, String)]) -> Result<Self, String> {
        self.check_complete(documents)?;
        let mut updated = self.clone();
        for (name, text) in documents {
            match name.as_str() {
                USER_DATA => updated.set("UserData", text),
                NETWORK_DATA => updated.set("NetworkData", text),
                META_DATA => updated.set_meta_data(text)?,
                other => return Err(format!("cloud-init has no document {other:?}")),
            }
        }
        Ok(updated)
    }

    fn check_complete(&self, documents: &[(String, String)]) -> Result<(), String> {
        for (name, _) in self.documents() {
            match documents
                .iter()
                .filter(|(returned, _)| *returned == name)
                .count()
            {
                1 => {}
                0 => return Err(format!("the document {name} did not come back")),
                count => return Err(format!("the document {name} came back {count} times")),
            }
        }
        Ok(())
    }

    /// The changed documents. Their texts are left out, because they may be secret.
    fn changes(&self, after: &Self) -> Vec<Change> {
        let mut members: Vec<&String> = self.data.keys().collect();
        members.extend(
            after
                .data
                .keys()
                .filter(|member| !self.data.contains_key(*member)),
        );
        let kind = |member: &str| match (
            has_value(&self.data, member),
            has_value(&after.data, member),
        ) {
            (false, false) => None,
            (false, true) => Some(ChangeKind::Inserted),
            (true, false) => Some(ChangeKind::Removed),
            (true, true) if self.data[member] != after.data[member] => Some(ChangeKind::Edited),
            (true, true) => None,
        };
        let changed = members
            .into_iter()
            .filter_map(|member| Some((member, kind(member)?)));
        changed
            .map(|(member, kind)| Change::new(document_name(member), kind, None, None))
            .collect()
    }

    fn meta_data_member(&self) -> &'static str {
        if self.data_source == "configDrive" {
            "ConfigDriveMetaData"
        } else {
            "NoCloudMetaData"
        }
    }

    fn meta_data(&self) -> Option<&Value> {
        self.data
            .get(self.meta_data_member())
            .filter(|value| !value.is_null())
    }

    fn set_meta_data(&mut self, text: &str) -> Result<(), String> {
        let meta: Map<String, Value> = serde_json::from_str(text)
            .map_err(|error| not_an_object(&format!("the document {META_DATA}"), &error))?;
        self.data
            .insert(self.meta_data_member().to_owned(), meta.into());
        Ok(())
    }

    fn set(&mut self, member: &str, text: &str) {
        self.data.insert(member.to_owned(), text.into());
    }
}

fn document_name(member: &str) -> &str {
    match member {
        "UserData" => USER_DATA,
        "NetworkData" => NETWORK_DATA,
        "NoCloudMetaData" | "ConfigDriveMetaData" => META_DATA,
        other => other,
    }
}

/// Cloud-init data that is passed through the hooks, as KubeVirt's JSON. gRPC sidecars get the JSON unchanged; WASM
/// hooks get its user data, network data and meta data as documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInitDocuments {
    /// `noCloud` or `configDrive`.
    pub data_source: String,
    /// KubeVirt's `CloudInitData`: `DataSource`, `NoCloudMetaData`, `ConfigDriveMetaData`,
    /// `UserData`, `NetworkData`, `DevicesData`, `VolumeName`.
    pub cloud_init_data_json: String,
}

/// A hook's answer at PreCloudInitIso before it is validated.
#[derive(Debug, Clone)]
pub(crate) enum CloudInitAnswer {
    /// Documents, as modules return them.
    Documents(Vec<(String, String)>),
    /// JSON, as sidecars return it.
    Json {
        /// KubeVirt's `CloudInitData`.
        data: Vec<u8>,
        /// KubeVirt's `CloudInitNoCloudSource`, from older sidecars.
        no_cloud_source: Vec<u8>,
    },
}

impl CloudInitAnswer {
    /// The total length of the answer in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Documents(documents) => {
                let texts = documents.iter().map(|(name, text)| name.len() + text.len());
                documents.len() + texts.sum::<usize>()
            }
            Self::Json {
                data,
                no_cloud_source,
            } => data.len() + no_cloud_source.len(),
        }
    }
}

/// The JSON of a `CloudInitNoCloudSource` with user and network data of a `CloudInitData`.
pub(crate) fn no_cloud_source(data: &Map<String, Value>) -> String {
    let mut source = Map::new();
    for (member, data_member) in [("userData", "UserData"), ("networkData", "NetworkData")] {
        let text = string_member(data, data_member);
        if !text.is_empty() {
            source.insert(member.to_owned(), text.into());
        }
    }
    Value::Object(source).to_string()
}

/// The string in a member; empty if the member is absent or not a string.
pub(crate) fn string_member<'a>(data: &'a Map<String, Value>, member: &str) -> &'a str {
    data.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn has_value(data: &Map<String, Value>, member: &str) -> bool {
    !matches!(data.get(member), None | Some(Value::Null)) && data[member] != ""
}

fn is_complete(data: &Map<String, Value>) -> bool {
    let has_meta = |member| {
        data.get(member)
            .is_some_and(|value: &Value| !value.is_null())
    };
    !string_member(data, "UserData").is_empty()
        && (has_meta("NoCloudMetaData") || has_meta("ConfigDriveMetaData"))
}

/// Parses a JSON object; empty bytes and `null` are `None`, any other value is an error.
pub(crate) fn parse_object(bytes: &[u8], what: &str) -> Result<Option<Map<String, Value>>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(bytes).map_err(|error| not_an_object(what, &error))
}

/// The error for `what` without serde's text, which contains values: cloud-init data may be secret.
fn not_an_object(what: &str, error: &serde_json::Error) -> String {
    let reason = match error.classify() {
        Category::Data => "it is another value",
        Category::Eof => "it ends early",
        Category::Syntax | Category::Io => "it has a syntax error",
    };
    let (line, column) = (error.line(), error.column());
    format!("{what} is not a JSON object: {reason}, at line {line} column {column}")
}

#[cfg(test)]
mod tests;
