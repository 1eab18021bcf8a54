//! KubeVirt's element in a domain's metadata: `<kubevirt xmlns="http://kubevirt.io">`.
//!
//! The launcher stores the element in the domain; virt-handler reads it from the `Domain` JSON.

use domain_xml::Document;

use crate::typed_xml::{ParseError, ReadElement, WriteElement, XmlWriter, element, local_name};

/// The namespace of the metadata element.
pub const NAMESPACE: &str = "http://kubevirt.io";
const ROOT_ELEMENT: &str = "kubevirt";

element! {
    /// The domain's `<metadata>`.
    Metadata {
        kubevirt: KubeVirtMetadata = child "kubevirt" => "KubeVirt";
    }

    /// The launcher's records about the VM. Timestamps are RFC 3339 in UTC, to the second.
    KubeVirtMetadata xmlns "http://kubevirt.io" {
        uid: String = child "uid" => "UID";
        grace_period: Option<GracePeriod> = child "graceperiod" => "GracePeriod";
        migration: Option<Migration> = child "migration" => "Migration";
        backup: Option<Backup> = child "backup" => "Backup";
        access_credential: Option<AccessCredential> = child "accessCredential" => "AccessCredential";
        memory_dump: Option<MemoryDump> = child "memoryDump" => "MemoryDump";
    }

    /// How long the guest may take to shut down.
    GracePeriod {
        deletion_grace_period_seconds: i64 = child "deletionGracePeriodSeconds" => "DeletionGracePeriodSeconds";
        deletion_timestamp: Option<String> = child "deletionTimestamp" => "DeletionTimestamp";
        marked_for_graceful_shutdown: Option<bool> = child "markedForGracefulShutdown" => "MarkedForGracefulShutdown";
    }

    /// A migration, running or finished. [`crate::migration_metadata_values`] has the values of mode and abort status.
    Migration {
        uid: String = child "uid" when set => "UID";
        start_timestamp: Option<String> = child "startTimestamp" => "StartTimestamp";
        end_timestamp: Option<String> = child "endTimestamp" => "EndTimestamp";
        failed: bool = child "failed" when set => "Failed";
        failure_reason: String = child "failureReason" when set => "FailureReason";
        abort_status: String = child "abortStatus" when set => "AbortStatus";
        mode: String = child "mode" when set => "Mode";
    }

    /// A backup, running or finished.
    Backup {
        name: String = child "name" when set => "Name";
        mode: String = child "mode" when set => "Mode";
        skip_quiesce: bool = child "skipQuiesce" when set => "SkipQuiesce";
        start_timestamp: Option<String> = child "startTimestamp" => "StartTimestamp";
        end_timestamp: Option<String> = child "endTimestamp" => "EndTimestamp";
        completed: bool = child "completed" when set => "Completed";
        failed: bool = child "failed" when set => "Failed";
        backup_msg: String = child "backupMsg" when set => "BackupMsg";
        checkpoint_name: String = child "checkpointName" when set => "CheckpointName";
        volumes: String = child "volumes" when set => "Volumes";
        quiesce_status: String = child "quiesceStatus" when set => "QuiesceStatus";
    }

    /// Whether access credentials were set in the guest.
    AccessCredential {
        succeeded: bool = child "succeeded" when set => "Succeeded";
        message: String = child "message" when set => "Message";
    }

    /// A memory dump, running or finished.
    MemoryDump {
        file_name: String = child "fileName" when set => "FileName";
        start_timestamp: Option<String> = child "startTimestamp" => "StartTimestamp";
        end_timestamp: Option<String> = child "endTimestamp" => "EndTimestamp";
        completed: bool = child "completed" when set => "Completed";
        failed: bool = child "failed" when set => "Failed";
        failure_reason: String = child "failureReason" when set => "FailureReason";
    }
}

impl KubeVirtMetadata {
    /// The element as XML text.
    pub fn render(&self) -> String {
        let mut writer = XmlWriter::new();
        self.write(ROOT_ELEMENT, &mut writer);
        writer.finish()
    }

    /// Parses the element from libvirt's XML.
    ///
    /// # Errors
    /// [`ParseError`] if the text is not XML, the element has another name, or a value is of the wrong type.
    pub fn parse(xml: &str) -> Result<Self, ParseError> {
        let document = Document::parse(xml)?;
        let root = document.root();
        if local_name(root) != ROOT_ELEMENT {
            return Err(ParseError::Root {
                found: root.tag_name().to_owned(),
                expected: ROOT_ELEMENT,
            });
        }
        let mut metadata = Self::default();
        metadata.read(root)?;
        Ok(metadata)
    }
}
