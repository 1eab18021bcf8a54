//! Rules for the parts of answers that may differ from the recorded ones, each with its reason: values that depend on
//! the time or the machine, and intended differences.

mod call_rules;
mod method_rules;

use std::collections::BTreeSet;

use serde_json::Value;

use super::RecordedCall;
use super::call_pattern::CallPattern;
use super::comparison::{Rule, Strictness, compare};
use call_rules::CALL_RULES;
use method_rules::METHOD_RULES;

const fn rule(path: &'static str, strictness: Strictness, reason: &'static str) -> Rule {
    Rule {
        path,
        strictness,
        reason,
    }
}

const MOMENT: &str = "a value of the moment";
const MACHINE: &str = "a value of the machine, its QEMU or its guest";

/// The agent of Debian 12, as that of the recorded guest, has neither `guest-get-load` nor `guest-network-get-route`; the
/// agent of Debian 13 has both.
const NEWER_AGENT: &str = "newer guest agents report the load and the routes";

const NIC: &str = "the recorded VM has an interface that a sidecar put into it";

/// All rules, each with the calls that it is for.
fn all() -> impl Iterator<Item = (CallPattern, Rule)> {
    let of_methods = METHOD_RULES
        .iter()
        .flat_map(|(calls, rules)| rules.iter().map(|rule| (*calls, *rule)));
    of_methods.chain(CALL_RULES.iter().copied())
}

fn title(calls: CallPattern, rule: &Rule) -> String {
    format!("{calls}, {}", rule.path)
}

/// The titles of the rules that are needed on every machine.
pub(super) fn titles() -> impl Iterator<Item = String> {
    all()
        .filter(|(_, rule)| rule.reason != NEWER_AGENT)
        .map(|(calls, rule)| title(calls, &rule))
}

/// The differences between the recorded answer and ours that neither the rules for the call nor the `further` rules
/// allow. Adds the titles of the needed rules for the call to `needed_rules`.
pub(super) fn differences(
    call: &RecordedCall,
    recorded: &Value,
    ours: &Value,
    further: &[Rule],
    needed_rules: &mut BTreeSet<String>,
) -> Vec<String> {
    let (titles, mut rules): (Vec<String>, Vec<Rule>) = all()
        .filter(|(calls, _)| calls.matches(call))
        .map(|(calls, rule)| (title(calls, &rule), rule))
        .unzip();
    rules.extend(further);
    let findings = compare(recorded, ours, &rules);
    let indices = findings.needed_rules.iter();
    needed_rules.extend(indices.filter_map(|index| titles.get(*index).cloned()));
    findings.differences
}
