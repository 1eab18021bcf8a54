//! Compares the outcome of a recorded call with the outcome of its replay.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;

use super::allowed_outcomes::{ALLOWED_OUTCOMES, AllowedOutcome};
use super::comparison::{Rule, Strictness};
use super::{Outcome, RecordedCall, allowed_differences};

/// The differences between the recorded outcome of a call and ours, one line each. Adds the titles of the needed rules
/// to `needed_rules`.
pub fn compare(
    call: &RecordedCall,
    ours: &Outcome,
    needed_rules: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    let title = call.title();
    let differences = match ALLOWED_OUTCOMES
        .iter()
        .find(|allowed| allowed.call.matches(call))
    {
        Some(allowed) => {
            needed_rules.insert(allowed.call.to_string());
            compare_allowed_outcome(allowed, call, ours, needed_rules)?
        }
        None => compare_same_outcome(call, ours, needed_rules),
    };
    let lines = differences
        .iter()
        .map(|difference| format!("{title}: {difference}"));
    Ok(lines.collect())
}

fn compare_allowed_outcome(
    allowed: &AllowedOutcome,
    call: &RecordedCall,
    ours: &Outcome,
    needed_rules: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    Ok(match (ours, allowed.answer, allowed.refusal) {
        (Outcome::Answered(ours), Some(answer), _) => {
            allowed_differences::differences(call, &answer()?, ours, &[], needed_rules)
        }
        (Outcome::Refused(message, _) | Outcome::GrpcError(message), _, Some(text))
            if message.contains(text) =>
        {
            Vec::new()
        }
        _ => vec![format!("{ours:?}, although {}", allowed.reason)],
    })
}

fn compare_same_outcome(
    call: &RecordedCall,
    ours: &Outcome,
    needed_rules: &mut BTreeSet<String>,
) -> Vec<String> {
    match (&call.outcome, ours) {
        (Outcome::Answered(recorded), Outcome::Answered(ours)) => {
            allowed_differences::differences(call, recorded, ours, &[], needed_rules)
        }
        (Outcome::Refused(recorded, result), Outcome::Refused(message, ours)) => {
            let mut differences =
                allowed_differences::differences(call, result, ours, &[], needed_rules);
            differences.extend(message_difference(recorded, message));
            differences
        }
        (Outcome::GrpcError(recorded), Outcome::GrpcError(message)) => {
            message_difference(recorded, message).into_iter().collect()
        }
        (recorded, ours) => vec![format!("recorded {recorded:?}, ours {ours:?}")],
    }
}

/// The titles of all rules that are not in `needed_rules`.
pub fn unneeded_rules(needed_rules: &BTreeSet<String>) -> Vec<String> {
    let outcomes = ALLOWED_OUTCOMES
        .iter()
        .map(|allowed| allowed.call.to_string());
    let titles: BTreeSet<String> = allowed_differences::titles().chain(outcomes).collect();
    titles.difference(needed_rules).cloned().collect()
}

/// Compares the shape of a domain with the recorded one of another VM: the names, types and presence of the fields,
/// except the fields that `absent` rules allow to be missing.
pub fn compare_shape(call: &RecordedCall, ours: &Value, absent: &[Rule]) -> Vec<String> {
    const DIFFERENT_VM: &str = "another VM";
    let Outcome::Answered(recorded) = &call.outcome else {
        return vec![format!("{}: no answer", call.title())];
    };
    let rule = |path, strictness, reason| Rule {
        path,
        strictness,
        reason,
    };
    let shape = [
        rule("V", Strictness::Type, DIFFERENT_VM),
        rule("V.Spec.Devices.*", Strictness::Elements, DIFFERENT_VM),
        rule("V.Spec.SysInfo.System", Strictness::Elements, DIFFERENT_VM),
        rule(
            "V.Spec.Resource",
            Strictness::Any,
            "only a libvirt that runs as root has partitions",
        ),
    ];
    let further: Vec<Rule> = shape.iter().chain(absent).copied().collect();
    let differences =
        allowed_differences::differences(call, recorded, ours, &further, &mut BTreeSet::new());
    differences
        .iter()
        .map(|difference| format!("{}: {difference}", call.title()))
        .collect()
}

/// The difference between two messages, if they differ in more than the IDs of guest processes, the sentence around GLib's
/// errors, which newer guest agents leave out, and the reason why a frozen agent refuses a command.
fn message_difference(recorded: &str, ours: &str) -> Option<String> {
    const SENTENCE: &str = "Guest agent command failed, error was '";
    let without_sentence = |text: String| match text.split_once(SENTENCE) {
        Some((before, error)) => format!("{before}{}", error.replacen("''", "'", 1)),
        None => text,
    };
    let without_pid = |text: &str| match text.split_once("guest pid [") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}guest pid [{rest}")
        }
        None => text.to_owned(),
    };
    let comparable = |text: &str| {
        without_sentence(without_pid(text)).replace(
            "has been disabled: the command is not allowed",
            "has been disabled: the agent is in frozen state",
        )
    };
    let differs = comparable(recorded) != comparable(ours);
    differs.then(|| format!("message: recorded {recorded}, ours {ours}"))
}
