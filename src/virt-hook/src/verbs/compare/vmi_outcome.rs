//! The outcome of one side of a comparison for one VMI.

use std::collections::BTreeMap;

use crate::cloud_init_documents_by_name::cloud_init_documents_by_name;
use crate::collected_hooks::HookResults;
use crate::inputs::VmiInput;
use crate::output::RunReport;

const NO_POD_FACTS: &str = "no facts about the pod here; give some with --pod";

/// The outcome of one side for a VMI.
pub(super) enum VmiOutcome {
    /// The side succeeded, or failed in a way that is ignored.
    Completed {
        xml: String,
        documents: BTreeMap<String, String>,
        /// Failures that the hooks' failure policy ignores.
        ignored_failures: Vec<String>,
    },
    /// The side vetoes or fails: the VM would not start.
    Refused(String),
    /// The side failed before it read the domain, so its effect is not known. The VM would not start.
    NotRun(String),
    /// The side needs inputs that only a cluster has. Neither its effect nor whether the VM would start is known.
    Unknown(String),
}

/// The cloud-init documents before any hook.
pub(super) fn documents(input: &VmiInput) -> BTreeMap<String, String> {
    let data = input.cloud_init.as_ref().ok().and_then(Option::as_ref);
    data.map(cloud_init_documents_by_name).unwrap_or_default()
}

impl VmiOutcome {
    pub(super) fn unchanged(input: &VmiInput) -> Self {
        Self::Completed {
            xml: input.xml.clone(),
            documents: documents(input),
            ignored_failures: Vec::new(),
        }
    }

    pub(super) fn from_hook_results(input: &VmiInput, results: HookResults) -> Self {
        if results.lacks_pod_facts {
            return Self::Unknown(NO_POD_FACTS.to_owned());
        }
        if let Some(error) = results.error {
            return Self::Refused(error.to_string());
        }
        let hooked = results.cloud_init.as_ref();
        let failures = results.runs.iter().filter_map(RunReport::ignored_failure);
        Self::Completed {
            ignored_failures: failures.collect(),
            xml: results.xml,
            documents: hooked.map_or_else(|| documents(input), cloud_init_documents_by_name),
        }
    }
}
