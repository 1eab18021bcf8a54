//! Derives the invocation from the VMI of a request: name, namespace and uid, and the reason from the migration state.

use serde::Deserialize;

use crate::{Invocation, Reason};

/// The members of a VMI that are read. All may be missing.
#[derive(Debug, Default, Deserialize)]
struct Vmi {
    metadata: Option<Metadata>,
    status: Option<Status>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    migration_state: Option<MigrationState>,
}

#[derive(Debug, Default, Deserialize)]
struct MigrationState {
    #[serde(default)]
    completed: bool,
    #[serde(default)]
    failed: bool,
}

/// The invocation for a request. `reason` is the reason that the launcher sent, if any.
pub(super) fn invocation_from_vmi(vmi: &str, reason: Option<Reason>) -> Result<Invocation, String> {
    let vmi: Vmi =
        serde_json::from_str(vmi).map_err(|error| format!("the VMI cannot be read: {error}"))?;
    let reason = reason.unwrap_or_else(|| vmi.reason());
    let Metadata {
        name,
        namespace,
        uid,
    } = vmi.metadata.unwrap_or_default();
    Ok(Invocation {
        reason,
        domain: format!("{namespace}_{name}"),
        namespace,
        name,
        uid,
    })
}

impl Vmi {
    /// The reason from the migration state, because KubeVirt sends no reason to sidecars. For a migration, it calls
    /// only the target's sidecars, and the VMI has a migration that has not ended.
    fn reason(&self) -> Reason {
        let state = self
            .status
            .as_ref()
            .and_then(|s| s.migration_state.as_ref());
        match state {
            Some(state) if !state.completed && !state.failed => Reason::MigrationTarget,
            _ => Reason::Boot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_and_reason_are_read_from_the_vmi() {
        let vmi = r#"{"metadata":{"name":"vm","namespace":"ns","uid":"u","x":1},"spec":{}}"#;
        let invocation = invocation_from_vmi(vmi, None).unwrap();
        assert_eq!(invocation.domain, "ns_vm");
        assert_eq!(
            (invocation.uid.as_str(), invocation.reason),
            ("u", Reason::Boot)
        );
        let reason = |state: &str| {
            let vmi = format!(r#"{{"metadata":null,"status":{{"migrationState":{state}}}}}"#);
            invocation_from_vmi(&vmi, None).unwrap().reason
        };
        assert_eq!(reason(r#"{"targetNode":"n"}"#), Reason::MigrationTarget);
        assert_eq!(reason(r#"{"completed":true}"#), Reason::Boot);
        assert_eq!(reason(r#"{"failed":true}"#), Reason::Boot);
        assert_eq!(reason("null"), Reason::Boot);
        let invocation = invocation_from_vmi(vmi, Some(Reason::MigrationTarget)).unwrap();
        assert_eq!(invocation.reason, Reason::MigrationTarget);
        assert!(invocation_from_vmi("[]", None).is_err() && invocation_from_vmi("", None).is_err());
    }
}
