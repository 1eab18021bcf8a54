//! Whether a VM with the hook can migrate: on the target the hook runs on the domain that arrives, and may not change what
//! the guest sees.

use domain_xml::{Document, diff};
use hook_host::Description;
use hook_host::policy::migration_abi;

use super::check_finding::{Finding, Verdict};
use super::sample_vmi_runs::{BehaviourCheck, SampleRun, in_one_line};
use crate::exit_codes::Failure;

const NAME: &str = "migration";

/// The finding. A module knows its node by the VMI's labels and status, which are another node's here, and by directories,
/// which are this machine's: of these, it only says that they may differ.
pub(super) fn finding(ran: &BehaviourCheck, description: &Description) -> Result<Finding, Failure> {
    let (mut refused, mut visible) = (Vec::new(), Vec::new());
    for sample in ran.samples.iter().filter(|one| one.once.error.is_none()) {
        refused.extend(refused_on_arrival(ran, sample)?);
        visible.extend(refused_changes(sample, &sample.input.xml, &sample.once.xml));
    }
    let wishes = description.wishes.as_ref();
    let reads_directories = wishes.is_some_and(|wishes| !wishes.dirs.is_empty());
    Ok(verdict(refused, visible, reads_directories))
}

/// `refused` on a target, and `visible` changes at a boot, which another node's directory may make differ.
fn verdict(refused: Vec<String>, visible: Vec<String>, reads_directories: bool) -> Finding {
    if !refused.is_empty() {
        return Finding::unless_of_vmis(
            NAME,
            refused,
            Verdict::Failed,
            "",
            "a VM with it cannot migrate: the target, another node, refuses what it changes of a VM that arrives; leave \
             that as it is when the reason is migration-target",
        );
    }
    let doubts = match reads_directories {
        true => visible,
        false => Vec::new(),
    };
    Finding::unless_of_vmis(
        NAME,
        doubts,
        Verdict::Doubtful,
        "it changes nothing of a VM that arrives that the guest would notice",
        "it reads directories and changes what the guest sees: their content must be the same on every node, or a \
         migration is refused",
    )
}

fn refused_on_arrival(ran: &BehaviourCheck, sample: &SampleRun) -> Result<Vec<String>, Failure> {
    let arrived = ran.arrive(sample)?;
    Ok(match arrived.error {
        Some(error) => vec![format!("{}: {error}", sample.name)],
        None => refused_changes(sample, &sample.once.xml, &arrived.xml),
    })
}

/// The changes that a migration's target refuses, one line each.
fn refused_changes(sample: &SampleRun, before: &str, after: &str) -> Vec<String> {
    let read = |xml: &str| Document::parse(xml).ok();
    let Some((before, after)) = read(before).zip(read(after)) else {
        return Vec::new();
    };
    let changes = diff(&before, &after);
    let refused = migration_abi::refused(&changes, &before, &after);
    refused
        .into_iter()
        .map(|change| format!("{}: {}", sample.name, in_one_line(&change.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict_of(refused: &[&str], visible: &[&str], reads_directories: bool) -> String {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let finding = verdict(lines(refused), lines(visible), reads_directories);
        let json = serde_json::to_value(finding).unwrap_or_default();
        json["verdict"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn visible_changes_are_doubtful_only_if_a_directory_may_differ() {
        let visible = ["linux: /domain/sysinfo: a becomes b"];
        let refused = ["linux: /domain/memory: 1 becomes 2"];
        assert_eq!(verdict_of(&[], &visible, false), "passed");
        assert_eq!(verdict_of(&[], &visible, true), "doubtful");
        assert_eq!(verdict_of(&[], &[], true), "passed");
        assert_eq!(verdict_of(&refused, &visible, true), "failed");
    }
}
