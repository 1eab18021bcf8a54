//! Whether a VM with the hook can migrate: on the target the hook may not refuse the VM, and may not change what the guest sees
//! of the domain that arrives.

use domain_xml::{Document, diff};
use hook_host::Description;
use hook_host::policy::migration_abi;

use super::check_finding::{CheckVerdict, Finding};
use super::sample_vmi_runs::{BehaviourCheck, SampleRun, in_one_line};
use crate::exit_codes::Failure;

const NAME: &str = "migration";

/// The finding. A module knows its node by the VMI's labels and status, which are another node's here, and by directories and
/// facts about the pod, which are the same here for both: of these, it only says that they may differ.
pub(super) fn finding(ran: &BehaviourCheck, description: &Description) -> Result<Finding, Failure> {
    let (mut refused, mut visible) = (Vec::new(), Vec::new());
    for sample in ran.samples.iter().filter(|one| one.once.error.is_none()) {
        refused.extend(refused_on_arrival(ran, sample)?);
        visible.extend(refused_changes(sample, &sample.input.xml, &sample.once.xml));
    }
    let wishes = description.wishes.as_ref();
    let sources = wishes.map_or(Sources::default(), |wishes| Sources {
        directories: !wishes.dirs.is_empty(),
        pod: !wishes.pod.is_empty(),
    });
    Ok(verdict(refused, visible, sources))
}

/// What a hook reads that may differ between the two sides of a migration.
#[derive(Debug, Clone, Copy, Default)]
struct Sources {
    directories: bool,
    pod: bool,
}

impl Sources {
    fn names(self) -> &'static str {
        match (self.directories, self.pod) {
            (true, true) => "directories and facts about the pod",
            (true, false) => "directories",
            (false, _) => "facts about the pod",
        }
    }
}

/// `refused` on a target, and `visible` changes at a boot, which other `sources` may make differ.
fn verdict(refused: Vec<String>, visible: Vec<String>, sources: Sources) -> Finding {
    if !refused.is_empty() {
        return Finding::unless_of_vmis(
            NAME,
            refused,
            CheckVerdict::Failed,
            "",
            "a VM with it cannot migrate: on the target, another node, it refuses the VM, or changes what must stay as it is; \
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
    Finding::unless_of_vmis(
        NAME,
        doubts,
        CheckVerdict::Doubtful,
        "it makes no change to an incoming VM that its guest would notice",
        doubt,
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

    const NEITHER: Sources = Sources {
        directories: false,
        pod: false,
    };

    fn verdict_of(refused: &[&str], visible: &[&str], sources: Sources) -> String {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let finding = verdict(lines(refused), lines(visible), sources);
        let json = serde_json::to_value(finding).unwrap_or_default();
        json["verdict"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn visible_changes_are_doubtful_only_if_what_the_hook_reads_may_differ() {
        let visible = ["linux: /domain/sysinfo: a becomes b"];
        let refused = ["linux: /domain/memory: 1 becomes 2"];
        let directories = Sources {
            directories: true,
            ..NEITHER
        };
        let pod = Sources {
            pod: true,
            ..NEITHER
        };
        assert_eq!(verdict_of(&[], &visible, NEITHER), "passed");
        assert_eq!(verdict_of(&[], &visible, directories), "doubtful");
        assert_eq!(verdict_of(&[], &visible, pod), "doubtful");
        assert_eq!(verdict_of(&[], &[], pod), "passed");
        assert_eq!(verdict_of(&refused, &visible, directories), "failed");
    }
}
