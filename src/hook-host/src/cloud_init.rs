//! Converts cloud-init data between KubeVirt's JSON, the messages of sidecars, and documents.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use domain_xml::{Budget, Change, ChangeKind};
use serde_json::error::Category;
use serde_json::{Map, Value};

const USER_DATA: &str = "user-data";
const NETWORK_DATA: &str = "network-data";
const META_DATA: &str = "meta-data";

/// Cloud-init data as KubeVirt's own JSON object; unknown members are kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CloudInit {
    data_source: String,
    data: Map<String, Value>,
}

/// A hook's answer at PreCloudInitIso, not yet validated.
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
    /// The length of all texts in bytes.
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

impl CloudInit {
    /// Applies an answer, and finds what changed. All of it is linear in the length of the texts.
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
            } => self.with_answer(data, no_cloud_source)?,
        };
        let changes = self.changes(&after);
        Ok((after, changes))
    }

    pub(crate) fn decode(documents: &CloudInitDocuments) -> Result<Self, String> {
        let data = serde_json::from_str(&documents.cloud_init_data_json)
            .map_err(|error| no_object("the cloud-init data", &error))?;
        Ok(Self {
            data_source: documents.data_source.clone(),
            data,
        })
    }

    /// Reconstructs the data from recorded documents, without what modules do not see.
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

    /// Applies a sidecar's answer. KubeVirt's rule: the data is used if it has user data and meta
    /// data, else user and network data of the `CloudInitNoCloudSource` are used. (KubeVirt then
    /// loses the meta data; here it is kept.)
    fn with_answer(&self, data: &[u8], no_cloud_source: &[u8]) -> Result<Self, String> {
        let data = object(data, "its CloudInitData")?;
        if let Some(data) = data.filter(is_complete) {
            let source = text(&data, "DataSource");
            let data_source = if source.is_empty() {
                self.data_source.clone()
            } else {
                source.to_owned()
            };
            return Ok(Self { data_source, data });
        }
        let source = object(no_cloud_source, "its CloudInitNoCloudSource")?.ok_or(
            "neither complete CloudInitData (user data and meta data) nor a CloudInitNoCloudSource",
        )?;
        let mut next = self.clone();
        next.set("UserData", text(&source, "userData"));
        next.set("NetworkData", text(&source, "networkData"));
        Ok(next)
    }

    /// The documents for WASM hooks: names and texts. Network data only if there is any.
    pub(crate) fn documents(&self) -> Vec<(String, String)> {
        let mut documents = vec![(
            USER_DATA.to_owned(),
            text(&self.data, "UserData").to_owned(),
        )];
        let network = text(&self.data, "NetworkData");
        if !network.is_empty() {
            documents.push((NETWORK_DATA.to_owned(), network.to_owned()));
        }
        if let Some(meta) = self.meta_data() {
            documents.push((META_DATA.to_owned(), meta.to_string()));
        }
        documents
    }

    /// Applies the documents of a WASM hook. It must return all documents; network data may be new.
    fn with_documents(&self, documents: &[(String, String)]) -> Result<Self, String> {
        self.check_complete(documents)?;
        let mut next = self.clone();
        for (name, text) in documents {
            match name.as_str() {
                USER_DATA => next.set("UserData", text),
                NETWORK_DATA => next.set("NetworkData", text),
                META_DATA => next.set_meta_data(text)?,
                other => return Err(format!("cloud-init has no document {other:?}")),
            }
        }
        Ok(next)
    }

    fn check_complete(&self, documents: &[(String, String)]) -> Result<(), String> {
        for (name, _) in self.documents() {
            match documents.iter().filter(|(back, _)| *back == name).count() {
                1 => {}
                0 => return Err(format!("the document {name} did not come back")),
                times => return Err(format!("the document {name} came back {times} times")),
            }
        }
        Ok(())
    }

    /// The changed documents, without their texts, which may be secret.
    fn changes(&self, after: &Self) -> Vec<Change> {
        let mut members: Vec<&String> = self.data.keys().collect();
        members.extend(
            after
                .data
                .keys()
                .filter(|member| !self.data.contains_key(*member)),
        );
        let kind =
            |member: &str| match (is_there(&self.data, member), is_there(&after.data, member)) {
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
            .map_err(|error| no_object(&format!("the document {META_DATA}"), &error))?;
        self.data
            .insert(self.meta_data_member().to_owned(), meta.into());
        Ok(())
    }

    fn set(&mut self, member: &str, text: &str) {
        self.data.insert(member.to_owned(), text.into());
    }
}

/// KubeVirt's `CloudInitNoCloudSource` with the texts of a `CloudInitData`.
pub(crate) fn no_cloud_source(data: &Map<String, Value>) -> String {
    let mut source = Map::new();
    for (member, ours) in [("userData", "UserData"), ("networkData", "NetworkData")] {
        let text = text(data, ours);
        if !text.is_empty() {
            source.insert(member.to_owned(), text.into());
        }
    }
    Value::Object(source).to_string()
}

/// The string of a member; empty if there is none.
pub(crate) fn text<'a>(data: &'a Map<String, Value>, member: &str) -> &'a str {
    data.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn is_there(data: &Map<String, Value>, member: &str) -> bool {
    !matches!(data.get(member), None | Some(Value::Null)) && data[member] != ""
}

fn is_complete(data: &Map<String, Value>) -> bool {
    let has_meta = |member| {
        data.get(member)
            .is_some_and(|value: &Value| !value.is_null())
    };
    !text(data, "UserData").is_empty()
        && (has_meta("NoCloudMetaData") || has_meta("ConfigDriveMetaData"))
}

/// Parses a JSON object; empty bytes and `null` are `None`, any other value is an error.
pub(crate) fn object(bytes: &[u8], what: &str) -> Result<Option<Map<String, Value>>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(bytes).map_err(|error| no_object(what, &error))
}

/// The error without serde's text, which contains values: cloud-init data may be secret.
fn no_object(what: &str, error: &serde_json::Error) -> String {
    let reason = match error.classify() {
        Category::Data => "it is another value",
        Category::Eof => "it ends early",
        Category::Syntax | Category::Io => "it has a syntax error",
    };
    let (line, column) = (error.line(), error.column());
    format!("{what} is not a JSON object: {reason}, at line {line} column {column}")
}

fn document_name(member: &str) -> &str {
    match member {
        "UserData" => USER_DATA,
        "NetworkData" => NETWORK_DATA,
        "NoCloudMetaData" | "ConfigDriveMetaData" => META_DATA,
        other => other,
    }
}

/// Cloud-init data that is passed through the hooks. KubeVirt's JSON is authoritative: gRPC sidecars
/// get it unchanged, WASM hooks get its user-data, network-data and meta-data as documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInitDocuments {
    /// `noCloud` or `configDrive`.
    pub data_source: String,
    /// KubeVirt's `CloudInitData`: `DataSource`, `NoCloudMetaData`, `ConfigDriveMetaData`,
    /// `UserData`, `NetworkData`, `DevicesData`, `VolumeName`.
    pub cloud_init_data_json: String,
}
