//! Cloud-init data, before it is written for the guest.

mod cloud_config;
mod error;
mod write_files_item;
mod yaml_editor;

pub use cloud_config::CloudConfig;
pub use error::CloudInitError;
pub use write_files_item::ConfigFile;
pub use yaml_editor::Yaml;

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

    /// All documents in their original order, new ones last.
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
            .find(|(existing, _)| existing == name)
            .map(|(_, text)| text.as_str())
    }

    /// Replaces a document, or adds it.
    pub fn set_document(&mut self, name: &str, text: impl Into<String>) {
        match self
            .documents
            .iter_mut()
            .find(|(existing, _)| existing == name)
        {
            Some((_, existing)) => *existing = text.into(),
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

    /// Edits the `#cloud-config` user data. Comments and everything else are kept. If the edit fails, the user data is
    /// not changed.
    ///
    /// # Errors
    /// If the user data is something else than `#cloud-config`, or the edit fails.
    ///
    /// ```
    /// # use hooks_sdk::{CloudInit, json};
    /// # let documents = vec![("user-data".to_owned(), "#cloud-config\n# mine\npackages: [vim]\n".to_owned())];
    /// # let mut cloud_init = CloudInit::new("noCloud", documents);
    /// cloud_init.edit_cloud_config(|config| {
    ///     config.add_package("qemu-guest-agent")?;
    ///     config.add_user("ops", &json!({"lock_passwd": true}))
    /// })?;
    /// assert_eq!(cloud_init.user_data(), r#"#cloud-config
    /// ## mine
    /// packages: [vim, "qemu-guest-agent"]
    /// users:
    ///   - default
    ///   - name: "ops"
    ///     lock_passwd: true
    /// "#);
    /// # Ok::<(), hooks_sdk::CloudInitError>(())
    /// ```
    pub fn edit_cloud_config(
        &mut self,
        edit: impl FnOnce(&mut CloudConfig) -> Result<(), CloudInitError>,
    ) -> Result<(), CloudInitError> {
        let mut config = CloudConfig::parse(self.user_data())?;
        edit(&mut config).map_err(|error| error.within("user-data"))?;
        self.set_user_data(config.render());
        Ok(())
    }

    /// Edits the network data as YAML, in the same way.
    ///
    /// # Errors
    /// If the edit fails.
    ///
    /// ```
    /// # use hooks_sdk::{CloudInit, json};
    /// # let network = "version: 2\nethernets:\n  eth0: # the first\n    dhcp4: true\n".to_owned();
    /// # let mut cloud_init = CloudInit::new("noCloud", vec![("network-data".to_owned(), network)]);
    /// cloud_init.edit_network_data(|network| network.set("ethernets.eth0.mtu", &json!(9000)))?;
    /// assert_eq!(
    ///     cloud_init.network_data(),
    ///     "version: 2\nethernets:\n  eth0: # the first\n    dhcp4: true\n    mtu: 9000\n"
    /// );
    /// # Ok::<(), hooks_sdk::CloudInitError>(())
    /// ```
    pub fn edit_network_data(
        &mut self,
        edit: impl FnOnce(&mut Yaml) -> Result<(), CloudInitError>,
    ) -> Result<(), CloudInitError> {
        let mut network = Yaml::new(self.network_data());
        edit(&mut network).map_err(|error| error.within("network-data"))?;
        self.set_network_data(network.render());
        Ok(())
    }
}
