//! A notification of the launcher: an event of its domain, or a Kubernetes event for its VMI.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The content of a notification.
#[derive(Clone, Debug)]
pub enum EventPayload {
    /// A domain event.
    Domain {
        /// `ADDED`, `MODIFIED` or `DELETED`.
        event_type: String,
        /// KubeVirt's JSON of the domain.
        domain: Value,
    },
    /// A Kubernetes event.
    Kubernetes(Value),
}

/// A notification of the launcher.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time of its arrival, since the start of this virt-handler.
    pub at: Duration,
    /// The content of the notification.
    pub payload: EventPayload,
}

impl Event {
    /// `Status/Reason` of a domain event (`Running/Unknown`), empty for a Kubernetes event.
    pub fn state(&self) -> String {
        match &self.payload {
            EventPayload::Domain { domain, .. } => {
                let text = |name: &str| {
                    domain["Status"][name]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned()
                };
                format!("{}/{}", text("Status"), text("Reason"))
            }
            EventPayload::Kubernetes(_) => String::new(),
        }
    }

    /// `ADDED`, `MODIFIED` or `DELETED`; empty for a Kubernetes event.
    pub fn event_type(&self) -> &str {
        match &self.payload {
            EventPayload::Domain { event_type, .. } => event_type,
            EventPayload::Kubernetes(_) => "",
        }
    }

    /// The domain, or null.
    pub fn domain(&self) -> &Value {
        match &self.payload {
            EventPayload::Domain { domain, .. } => domain,
            EventPayload::Kubernetes(_) => &Value::Null,
        }
    }

    /// KubeVirt's metadata in the domain, like `GracePeriod`.
    pub fn metadata(&self) -> &Value {
        &self.domain()["Spec"]["Metadata"]["KubeVirt"]
    }

    /// The Kubernetes event's reason (`HookFailed`), if this is one.
    pub fn kubernetes_reason(&self) -> Option<&str> {
        match &self.payload {
            EventPayload::Domain { .. } => None,
            EventPayload::Kubernetes(event) => event["Reason"]
                .as_str()
                .or_else(|| event["reason"].as_str()),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.payload {
            EventPayload::Domain { event_type, domain } => {
                write!(formatter, "{event_type} {}", self.state())?;
                match domain["ObjectMeta"]["deletionTimestamp"].as_str() {
                    Some(time) => write!(formatter, " deletionTimestamp={time}"),
                    None => Ok(()),
                }
            }
            EventPayload::Kubernetes(event) => {
                let reason = self.kubernetes_reason().unwrap_or_default();
                write!(
                    formatter,
                    "Kubernetes event {reason}: {}",
                    event["message"].as_str().unwrap_or_default()
                )
            }
        }
    }
}
