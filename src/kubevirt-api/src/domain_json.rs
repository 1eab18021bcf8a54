//! KubeVirt's JSON of a domain, which domain notifications and the answer to GetDomain contain.

use serde::Serialize;

use crate::domain_metadata::KubeVirtMetadata;
use crate::domain_state::{LifeCycle, reason};

/// The specification in a [`Domain`], which contains KubeVirt's metadata.
pub trait Specification: Serialize + Default {
    /// Replaces KubeVirt's metadata in the specification.
    fn set_metadata(&mut self, metadata: KubeVirtMetadata);
}

/// A domain as virt-handler decodes it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Domain<S> {
    /// Always `Domain`.
    pub kind: &'static str,
    /// Always `1.2.2`.
    #[serde(rename = "apiVersion")]
    pub api_version: &'static str,
    /// The VMI that the domain belongs to.
    #[serde(rename = "ObjectMeta")]
    pub metadata: ObjectMeta,
    /// The domain as libvirt describes it, with KubeVirt's metadata.
    #[serde(rename = "Spec")]
    pub spec: S,
    /// The state, and the guest agent's reports.
    #[serde(rename = "Status")]
    pub status: DomainStatus,
}

/// The part of Kubernetes' object metadata that a domain uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The VMI's name.
    pub name: String,
    /// The VMI's namespace.
    pub namespace: String,
    /// The VMI's UID; empty while it is unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// When the domain was found gone; `None` while it exists. RFC 3339 in UTC, to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

/// The state of a domain, and the guest agent's reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DomainStatus {
    /// Life cycle.
    pub status: LifeCycle,
    /// The reason for the state; see [`crate::domain_state::reason`].
    pub reason: String,
    /// Interfaces as the guest agent reports them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceStatus>,
    /// The guest's operating system.
    #[serde(rename = "OSInfo")]
    pub os_info: GuestOsInfo,
    /// Whether file systems are frozen.
    #[serde(rename = "FSFreezeStatus")]
    pub fs_freeze_status: FsFreeze,
    /// The guest's last panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest_panic_info: Option<GuestPanicInfo>,
    /// The number of panics.
    pub panic_count: i64,
}

/// An interface as the guest agent reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct InterfaceStatus {
    /// MAC address.
    pub mac: String,
    /// First address.
    pub ip: String,
    /// All addresses.
    #[serde(rename = "IPs", skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// Name in the guest.
    pub interface_name: String,
}

/// The guest's operating system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GuestOsInfo {
    /// Name.
    pub name: String,
    /// Kernel release.
    pub kernel_release: String,
    /// Version.
    pub version: String,
    /// Display name.
    pub pretty_name: String,
    /// Version id.
    pub version_id: String,
    /// Kernel version.
    pub kernel_version: String,
    /// Machine.
    pub machine: String,
    /// Id.
    pub id: String,
}

/// Whether file systems are frozen: `thawed`, `frozen` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FsFreeze {
    /// The state.
    pub status: String,
}

/// A guest panic as QEMU reports it; the arguments are Hyper-V's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GuestPanicInfo {
    /// The kind of the report.
    #[serde(rename = "Type")]
    pub kind: String,
    /// Bug check code.
    pub arg1: u64,
    /// First parameter.
    pub arg2: u64,
    /// Second parameter.
    pub arg3: u64,
    /// Third parameter.
    pub arg4: u64,
    /// Fourth parameter.
    pub arg5: u64,
}

impl<S: Specification> Domain<S> {
    /// A domain with only a name and namespace.
    pub fn reference(namespace: &str, name: &str) -> Self {
        Self {
            kind: "Domain",
            api_version: "1.2.2",
            metadata: ObjectMeta {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                ..ObjectMeta::default()
            },
            spec: S::default(),
            status: DomainStatus::default(),
        }
    }

    /// A domain in a state. `metadata` replaces the specification's metadata, and its UID becomes the object's UID.
    pub fn new(
        namespace: &str,
        name: &str,
        mut spec: S,
        metadata: KubeVirtMetadata,
        status: LifeCycle,
        reason: &str,
    ) -> Self {
        let mut domain = Self::reference(namespace, name);
        domain.metadata.uid.clone_from(&metadata.uid);
        spec.set_metadata(metadata);
        domain.spec = spec;
        domain.with_status(status, reason)
    }

    /// A domain that no longer exists. KubeVirt's launcher reports the end of a domain in this form, and never as a
    /// deletion.
    pub fn gone(namespace: &str, name: &str, uid: &str, deletion_timestamp: &str) -> Self {
        let metadata = KubeVirtMetadata {
            uid: uid.to_owned(),
            ..KubeVirtMetadata::default()
        };
        let mut domain = Self::new(
            namespace,
            name,
            S::default(),
            metadata,
            LifeCycle::NoState,
            reason::NON_EXISTENT,
        );
        domain.metadata.deletion_timestamp = Some(deletion_timestamp.to_owned());
        domain
    }

    /// The same domain in another state.
    #[must_use]
    pub fn with_status(mut self, status: LifeCycle, reason: &str) -> Self {
        self.status.status = status;
        self.status.reason = reason.to_owned();
        self
    }

    /// The JSON that virt-handler decodes.
    ///
    /// # Errors
    /// None: serialization cannot fail, because every key is a string.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}
