//! The fields of a domain in a notification that virt-handler's rules use.

use serde_json::{Value, json};

/// The fields of one notification.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotifiedDomain {
    /// The VMI's UID in KubeVirt's metadata.
    pub uid: String,
    /// Whether the object has a deletion timestamp, which the launcher sets when the domain is gone.
    pub deleted: bool,
    /// The domain's status, as KubeVirt names it.
    pub status: String,
    /// The reason of the status.
    pub reason: String,
    /// The grace period in the launcher's metadata.
    pub grace: Option<DomainGrace>,
    /// Whether the guest has ACPI, so that it reacts to the power button.
    pub acpi: bool,
    /// Whether a migration has begun and not ended.
    pub migrating: bool,
    /// Whether the guest agent's channel is connected.
    pub agent_connected: bool,
    /// Other fields that are copied to the VMI's status.
    pub observed: Value,
}

/// `GracePeriod` of KubeVirt's metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainGrace {
    /// The grace period in seconds.
    pub seconds: i64,
    /// The time when the guest was asked to shut down, in seconds of Unix time.
    pub begin: Option<i64>,
    /// Whether the VM is to be shut down because its pod is being deleted.
    pub marked_for_shutdown: bool,
}

impl NotifiedDomain {
    /// Reads KubeVirt's JSON of a domain.
    pub fn read(domain: &Value) -> NotifiedDomain {
        let (spec, status) = (&domain["Spec"], &domain["Status"]);
        let metadata = &spec["Metadata"]["KubeVirt"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let migration = &metadata["Migration"];
        NotifiedDomain {
            uid: text(&metadata["UID"]),
            deleted: !domain["ObjectMeta"]["deletionTimestamp"].is_null(),
            status: text(&status["Status"]),
            reason: text(&status["Reason"]),
            grace: DomainGrace::read(&metadata["GracePeriod"]),
            acpi: !spec["Features"]["ACPI"].is_null(),
            migrating: !migration["StartTimestamp"].is_null()
                && migration["EndTimestamp"].is_null(),
            agent_connected: has_agent(&spec["Devices"]["Channels"]),
            observed: json!([
                spec["OS"]["Type"]["Machine"],
                spec["CurrentMemory"],
                status["OSInfo"]["Name"],
                status["FSFreezeStatus"]["Status"],
                status["Interfaces"],
            ]),
        }
    }

    /// Whether the domain has this status and reason.
    pub fn is(&self, status: &str, reason: &str) -> bool {
        self.status == status && self.reason == reason
    }

    /// Whether the domain must be shut down before it can be deleted.
    pub fn is_alive(&self) -> bool {
        !matches!(self.status.as_str(), "Shutoff" | "Crashed" | "")
    }

    /// Whether virt-handler treats the domain as part of a migration. A domain that is starting up looks like a
    /// migration's target.
    pub fn is_migrating(&self) -> bool {
        let paused = ["Migration", "StartingUp", "Postcopy"];
        self.migrating || (self.status == "Paused" && paused.contains(&self.reason.as_str()))
    }

    /// Whether the domain is to be shut down because its pod is being deleted.
    pub fn is_marked_for_shutdown(&self) -> bool {
        self.grace
            .as_ref()
            .is_some_and(|grace| grace.marked_for_shutdown)
    }

    /// `Status/Reason`.
    pub fn state(&self) -> String {
        let gone = if self.deleted { " (gone)" } else { "" };
        format!("{}/{}{gone}", self.status, self.reason)
    }
}

impl DomainGrace {
    fn read(grace: &Value) -> Option<DomainGrace> {
        grace.is_object().then(|| DomainGrace {
            seconds: grace["DeletionGracePeriodSeconds"].as_i64().unwrap_or(0),
            begin: grace["DeletionTimestamp"].as_str().and_then(seconds),
            marked_for_shutdown: grace["MarkedForGracefulShutdown"].as_bool() == Some(true),
        })
    }
}

/// Parses a timestamp into seconds of Unix time.
fn seconds(text: &str) -> Option<i64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_second())
}

fn has_agent(channels: &Value) -> bool {
    let channels = channels.as_array().into_iter().flatten();
    let mut targets = channels.map(|channel| &channel["Target"]);
    targets
        .any(|target| target["Name"] == "org.qemu.guest_agent.0" && target["State"] == "connected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_read_as_virt_handler_reads_it() {
        let running = json!({
            "ObjectMeta": {"name": "vm"},
            "Spec": {
                "Features": {"ACPI": {}},
                "Metadata": {"KubeVirt": {"UID": "u", "Migration": null, "GracePeriod": {
                    "DeletionGracePeriodSeconds": 30, "DeletionTimestamp": "1970-01-02T00:00:01Z",
                    "MarkedForGracefulShutdown": true,
                }}},
                "Devices": {"Channels": [{"Target": {"Name": "org.qemu.guest_agent.0", "State": "connected"}}]},
            },
            "Status": {"Status": "Paused", "Reason": "StartingUp"},
        });
        let facts = NotifiedDomain::read(&running);
        assert!(
            facts.acpi
                && facts.agent_connected
                && facts.is_marked_for_shutdown()
                && facts.is_alive()
        );
        assert!(
            facts.is_migrating(),
            "starting up looks like a migration's target"
        );
        assert_eq!(
            facts.grace.as_ref().and_then(|grace| grace.begin),
            Some(86_401)
        );
        assert_eq!((facts.uid.as_str(), facts.deleted), ("u", false));

        let gone = json!({
            "ObjectMeta": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            "Spec": {"Metadata": {"KubeVirt": {"UID": "", "GracePeriod": null}}},
            "Status": {"Status": "NoState", "Reason": "NonExistent"},
        });
        let facts = NotifiedDomain::read(&gone);
        assert!(facts.deleted && facts.grace.is_none() && facts.uid.is_empty() && !facts.acpi);
        assert_eq!(facts.state(), "NoState/NonExistent (gone)");
        assert!(!NotifiedDomain::read(&Value::Null).is_alive());
    }
}
