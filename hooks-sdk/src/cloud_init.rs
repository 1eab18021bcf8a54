use crate::{CloudConfig, CloudConfigError};

/// The cloud-init data of a virtual machine, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudInit {
    data_source: String,
    documents: Vec<(String, String)>,
}

impl CloudInit {
    /// Documents by name: `user-data`, `network-data`, `meta-data`.
    pub fn new(data_source: impl Into<String>, documents: Vec<(String, String)>) -> CloudInit {
        CloudInit {
            data_source: data_source.into(),
            documents,
        }
    }

    /// All documents, in the order they came, new ones last.
    pub fn into_documents(self) -> Vec<(String, String)> {
        self.documents
    }

    /// `noCloud` or `configDrive`.
    pub fn data_source(&self) -> &str {
        &self.data_source
    }

    /// A document by name.
    pub fn document(&self, name: &str) -> Option<&str> {
        self.documents
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, text)| text.as_str())
    }

    /// Replaces a document, or adds it.
    pub fn set_document(&mut self, name: &str, text: impl Into<String>) {
        match self.documents.iter_mut().find(|(own, _)| own == name) {
            Some((_, own)) => *own = text.into(),
            None => self.documents.push((name.to_owned(), text.into())),
        }
    }

    /// The user data; empty when there is none.
    pub fn user_data(&self) -> &str {
        self.document("user-data").unwrap_or_default()
    }

    /// Replaces the user data.
    pub fn set_user_data(&mut self, text: impl Into<String>) {
        self.set_document("user-data", text);
    }

    /// The network data; empty when there is none.
    pub fn network_data(&self) -> &str {
        self.document("network-data").unwrap_or_default()
    }

    /// Replaces the network data.
    pub fn set_network_data(&mut self, text: impl Into<String>) {
        self.set_document("network-data", text);
    }

    /// The meta data, as JSON; empty when there is none.
    pub fn meta_data(&self) -> &str {
        self.document("meta-data").unwrap_or_default()
    }

    /// Whether the user data is a `#cloud-config` document, or nothing yet.
    pub fn is_cloud_config(&self) -> bool {
        CloudConfig::parse(self.user_data()).is_ok()
    }

    /// Edits the `#cloud-config` user data. Comments and everything else stay as they are; when
    /// the edit fails, the user data does too.
    pub fn edit_cloud_config(
        &mut self,
        edit: impl FnOnce(&mut CloudConfig) -> Result<(), CloudConfigError>,
    ) -> Result<(), CloudConfigError> {
        let mut config = CloudConfig::parse(self.user_data())?;
        edit(&mut config)?;
        self.set_user_data(config.render());
        Ok(())
    }
}
