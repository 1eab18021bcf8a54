//! The differences between a record and its replay.

use std::collections::{BTreeMap, BTreeSet};

use domain_xml::Document;
use domain_xml::host::{Change, diff};

use crate::record::{LogEntry, Output, Record};
use crate::{Outcome, Run};

/// The differences between the recorded and the replayed run. Durations are not compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// The recorded and the replayed outcome with their reasons, if they differ.
    pub outcome: Option<(String, String)>,
    /// The changes from the recorded domain or device to the replayed one.
    pub domain: Vec<Change>,
    /// Whether the texts of the XML differ. They may still be equivalent.
    pub bytes: bool,
    /// The names of the cloud-init documents, and of the parameters of a migration, that differ.
    pub documents: Vec<String>,
    /// Whether the logs differ.
    pub log: bool,
}

impl Difference {
    /// Whether the two runs are identical, byte for byte.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the two runs have the same effect; logs and formatting do not count.
    #[must_use]
    pub fn is_none_in_effect(&self) -> bool {
        self.outcome.is_none() && self.domain.is_empty() && self.documents.is_empty()
    }
}

pub(super) fn difference(record: &Record, run: &Run, output: Option<&Output>) -> Difference {
    let outcome_text = |outcome: &str, reason: Option<&str>| match reason {
        Some(reason) => format!("{outcome}: {reason}"),
        None => outcome.to_owned(),
    };
    let reason = match &run.outcome {
        Outcome::Ok => None,
        Outcome::Failed(error) => Some(error.to_string()),
    };
    let recorded = outcome_text(&record.outcome, record.reason.as_deref());
    let replayed = outcome_text(run.outcome.name(), reason.as_deref());
    let (none, before) = (Output::default(), record.output.as_ref());
    let (before, after) = (before.unwrap_or(&none), output.unwrap_or(&none));
    let log: Vec<LogEntry> = run.log.iter().map(LogEntry::of).collect();
    let xml = |output: &Output| {
        output
            .domain_xml
            .clone()
            .or_else(|| output.device_xml.clone())
    };
    let (xml_before, xml_after) = (xml(before), xml(after));
    Difference {
        outcome: (recorded != replayed).then_some((recorded, replayed)),
        domain: xml_changes(xml_before.as_deref(), xml_after.as_deref()),
        bytes: xml_before != xml_after,
        documents: [
            differing_names(before.documents.as_deref(), after.documents.as_deref()),
            differing_names(before.parameters.as_deref(), after.parameters.as_deref()),
        ]
        .concat(),
        log: log != record.log,
    }
}

fn xml_changes(before: Option<&str>, after: Option<&str>) -> Vec<Change> {
    let parse = |text: Option<&str>| Document::parse(text?).ok();
    match (parse(before), parse(after)) {
        (Some(before), Some(after)) => diff(&before, &after),
        // If only one of the texts is valid XML, the outcomes differ already.
        _ => Vec::new(),
    }
}

/// The names whose values differ.
fn differing_names(
    before: Option<&[(String, String)]>,
    after: Option<&[(String, String)]>,
) -> Vec<String> {
    let by_name = |list: Option<&[(String, String)]>| -> BTreeMap<String, String> {
        list.unwrap_or_default().iter().cloned().collect()
    };
    let (before, after) = (by_name(before), by_name(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    differing.cloned().collect()
}
