//! Whether a VM with the hook can migrate: on the target the hook may not refuse the VM, and may not change what the
//! guest sees of the domain that arrives.

use domain_xml::Document;
use domain_xml::host::diff;
use hook_host::Description;
use hook_host::policy::migration_abi;

use super::check_finding::{CheckVerdict, Finding};
use super::runs_on_all_vmis::RunsOnAllVmis;
use super::two_runs_on_vmi::{TwoRuns, in_one_line};
use crate::verb_failure::Failure;

const CHECK_NAME: &str = "migration";

/// Runs the hook as on another node. A module knows its node by the VMI's labels and status, which are those of another
/// node here, and by directories and facts about the pod. These are the same in both runs, so the finding only says
/// that they may differ.
pub(super) fn finding(
    behaviour: &RunsOnAllVmis,
    description: &Description,
) -> Result<Finding, Failure> {
    let (mut refused, mut visible) = (Vec::new(), Vec::new());
    for run in behaviour.runs_without_error() {
        refused.extend(refused_on_target(behaviour, run)?);
        visible.extend(refused_changes(run, &run.input.xml, &run.first.xml));
    }
    let wishes = description.wishes.as_ref();
    let sources = wishes.map_or(NodeInputs::default(), |wishes| NodeInputs {
        directories: !wishes.dirs.is_empty(),
        pod: !wishes.pod.is_empty(),
    });
    Ok(verdict(refused, visible, sources))
}

/// Inputs of a hook that may differ between the two sides of a migration.
#[derive(Debug, Clone, Copy, Default)]
struct NodeInputs {
    directories: bool,
    pod: bool,
}

impl NodeInputs {
    fn names(self) -> &'static str {
        match (self.directories, self.pod) {
            (true, true) => "directories and facts about the pod",
            (true, false) => "directories",
            (false, _) => "facts about the pod",
        }
    }
}

/// `refused` are refusals and refused changes on the target. `visible` are changes at a boot that the guest sees, which
/// may be others on a node with other `sources`.
fn verdict(refused: Vec<String>, visible: Vec<String>, sources: NodeInputs) -> Finding {
    if !refused.is_empty() {
        return Finding::from_vmi_lines(
            CHECK_NAME,
            refused,
            CheckVerdict::Failed,
            "",
            "a VM with it cannot migrate: on the target it refuses the VM, or changes what must stay unchanged; \
             leave that alone when the reason is migration-target",
        );
    }
    let doubts = match sources.directories || sources.pod {
        true => visible,
        false => Vec::new(),
    };
    let doubt = format!(
        "it reads {} and changes what the guest sees: they must be the same on every node, or a migration is refused",
        sources.names()
    );
    Finding::from_vmi_lines(
        CHECK_NAME,
        doubts,
        CheckVerdict::Doubtful,
        "it makes no change to an incoming VM that its guest would notice",
        doubt,
    )
}

fn refused_on_target(behaviour: &RunsOnAllVmis, run: &TwoRuns) -> Result<Vec<String>, Failure> {
    let arrived = behaviour.run_on_target(run)?;
    Ok(match arrived.error {
        Some(error) => vec![format!("{}: {error}", run.name)],
        None => refused_changes(run, &run.first.xml, &arrived.xml),
    })
}

/// The changes that a migration's target refuses, one line each.
fn refused_changes(run: &TwoRuns, before: &str, after: &str) -> Vec<String> {
    let parse = |xml: &str| Document::parse(xml).ok();
    let Some((before, after)) = parse(before).zip(parse(after)) else {
        return Vec::new();
    };
    let changes = diff(&before, &after);
    let refused = migration_abi::refused(&changes, &before, &after);
    refused
        .into_iter()
        .map(|change| format!("{}: {}", run.name, in_one_line(&change.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_NODE_INPUTS: NodeInputs = NodeInputs {
        directories: false,
        pod: false,
    };

    fn verdict_of(refused: &[&str], visible: &[&str], sources: NodeInputs) -> String {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let finding = verdict(lines(refused), lines(visible), sources);
        let json = serde_json::to_value(finding).unwrap_or_default();
        json["verdict"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn visible_changes_are_doubtful_only_if_inputs_of_the_node_may_differ() {
        let visible = ["linux: /domain/sysinfo: a becomes b"];
        let refused = ["linux: /domain/memory: 1 becomes 2"];
        let directories = NodeInputs {
            directories: true,
            ..NO_NODE_INPUTS
        };
        let pod = NodeInputs {
            pod: true,
            ..NO_NODE_INPUTS
        };
        assert_eq!(verdict_of(&[], &visible, NO_NODE_INPUTS), "passed");
        assert_eq!(verdict_of(&[], &visible, directories), "doubtful");
        assert_eq!(verdict_of(&[], &visible, pod), "doubtful");
        assert_eq!(verdict_of(&[], &[], pod), "passed");
        assert_eq!(verdict_of(&refused, &visible, directories), "failed");
    }
}
