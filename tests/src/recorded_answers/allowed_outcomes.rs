//! Compares the outcome of a recorded call with the outcome of its replay, and lists the calls whose outcomes may differ.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::call_pattern::{CallPattern, call};
use super::comparison::{Rule, Strictness};
use super::{Outcome, RecordedCall, allowed_differences, calls};

/// An intended difference in whether a call succeeds, in its whole answer, or in the message of its refusal.
struct OtherOutcome {
    call: CallPattern,
    /// The answer with which ours is compared where it succeeds, if it may.
    answer: Option<fn() -> Result<Value>>,
    /// A text in the message of a refusal, if ours may be one.
    refusal: Option<&'static str>,
    reason: &'static str,
}

const fn succeeds(
    call: CallPattern,
    answer: fn() -> Result<Value>,
    reason: &'static str,
) -> OtherOutcome {
    OtherOutcome {
        call,
        answer: Some(answer),
        refusal: None,
        reason,
    }
}

const fn fails(call: CallPattern, text: &'static str, reason: &'static str) -> OtherOutcome {
    OtherOutcome {
        call,
        answer: None,
        refusal: Some(text),
        reason,
    }
}

const fn either(
    call: CallPattern,
    answer: fn() -> Result<Value>,
    text: &'static str,
    reason: &'static str,
) -> OtherOutcome {
    OtherOutcome {
        call,
        answer: Some(answer),
        refusal: Some(text),
        reason,
    }
}

const UNESCAPED: &str =
    "KubeVirt's launcher puts the arguments into the agent's command without escaping them";
const NEWER_AGENT: &str = "QEMU's agent knows the load and the routes since 9.1";

const OTHER_OUTCOMES: &[OtherOutcome] = &[
    succeeds(
        call("02-answers", 13, "exec"),
        || Ok(json!({ "exitCode": 0, "stdout": "x".repeat(200_000) })),
        UNESCAPED,
    ),
    succeeds(
        call("02-answers", 15, "exec"),
        || Ok(json!({ "exitCode": 0, "stdout": "\u{fffd}\u{fffd}bin" })),
        UNESCAPED,
    ),
    succeeds(
        call("02-answers", 20, "vmstats"),
        || {
            with_fields(
                recorded_answer("02-vmstats", 2)?,
                &[("DirtyRateMbps", json!(0))],
            )
        },
        "docs/command-service.md, GetDomainDirtyRateStats: the answer is that of its own measurement, the first one included",
    ),
    fails(
        call("02-answers", 25, "launchmeasurement"),
        "no SEV",
        "docs/command-service.md, GetLaunchMeasurement: a guest without SEV is an error that says so",
    ),
    either(
        call("02-vmstats", 1, "vmstats"),
        all_agent_statistics,
        "agent data guest-",
        NEWER_AGENT,
    ),
    either(
        call("02-vmstats", 3, "vmstats"),
        || with_fields(no_agent_statistics()?, &[load()]),
        "agent data guest-get-load",
        NEWER_AGENT,
    ),
    either(
        call("02-vmstats", 14, "vmstats"),
        || with_fields(no_agent_statistics()?, &[routes()]),
        "agent data guest-network-get-route",
        NEWER_AGENT,
    ),
    succeeds(
        call("03-freeze", 9, "guestinfo"),
        || {
            let commands = recorded_answer("03-freeze", 6)?["supportedCommands"].clone();
            let answer = recorded_answer("03-freeze", 9)?;
            with_fields(answer, &[("supportedCommands", commands)])
        },
        "docs/command-service.md, GetGuestInfo: a frozen agent is not asked for its commands, so that they stay enabled",
    ),
    succeeds(
        call("04-pause", 4, "guestping"),
        || Ok(Value::Null),
        "docs/command-service.md, GuestPing: the agent of a guest that is paused for a good reason is not missed",
    ),
];

fn recorded_answer(topic: &str, index: usize) -> Result<Value> {
    let call = calls(topic)?.into_iter().nth(index);
    match call.context("no such call")?.outcome {
        Outcome::Answered(answer) => Ok(answer),
        other => anyhow::bail!("{topic} call {index} is no answer: {other:?}"),
    }
}

fn with_fields(mut answer: Value, fields: &[(&str, Value)]) -> Result<Value> {
    for (name, value) in fields {
        answer[name] = value.clone();
    }
    Ok(answer)
}

/// The recorded answer to a request for the agent's time, without the time.
fn no_agent_statistics() -> Result<Value> {
    let answer = recorded_answer("02-vmstats", 6)?;
    with_fields(answer, &[("GuestGetTime", json!(""))])
}

fn load() -> (&'static str, Value) {
    let load = json!({ "return": { "load1m": 0.5, "load5m": 0.5, "load15m": 0.5 } });
    ("GuestGetLoad", json!(load.to_string()))
}

/// The guest has no route.
fn routes() -> (&'static str, Value) {
    ("GuestNetworkGetRoute", json!(r#"{"return":[]}"#))
}

/// The recorded answers to requests for one of the agent's statistics each, as one.
fn all_agent_statistics() -> Result<Value> {
    let mut all = with_fields(no_agent_statistics()?, &[load(), routes()])?;
    for index in (4..=13).chain(15..=16) {
        let one = recorded_answer("02-vmstats", index)?;
        for (name, value) in one.as_object().context("no object")? {
            if name.starts_with("Guest") && *value != json!("") {
                all[name] = value.clone();
            }
        }
    }
    Ok(all)
}

/// The differences between a recorded call and ours, one line each. The titles of the rules that were needed go to
/// `needed`.
pub fn compare(
    call: &RecordedCall,
    ours: &Outcome,
    needed: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    let title = call.title();
    let found = match OTHER_OUTCOMES.iter().find(|other| other.call.matches(call)) {
        Some(other) => {
            needed.insert(other.call.to_string());
            other_outcome(other, call, ours, needed)?
        }
        None => same_outcome(call, ours, needed),
    };
    Ok(found.iter().map(|one| format!("{title}: {one}")).collect())
}

fn other_outcome(
    other: &OtherOutcome,
    call: &RecordedCall,
    ours: &Outcome,
    needed: &mut BTreeSet<String>,
) -> Result<Vec<String>> {
    Ok(match (ours, other.answer, other.refusal) {
        (Outcome::Answered(ours), Some(answer), _) => {
            allowed_differences::differences(call, &answer()?, ours, &[], needed)
        }
        (Outcome::Refused(message, _) | Outcome::GrpcError(message), _, Some(text))
            if message.contains(text) =>
        {
            Vec::new()
        }
        _ => vec![format!("{ours:?}, although {}", other.reason)],
    })
}

fn same_outcome(call: &RecordedCall, ours: &Outcome, needed: &mut BTreeSet<String>) -> Vec<String> {
    match (&call.outcome, ours) {
        (Outcome::Answered(recorded), Outcome::Answered(ours)) => {
            allowed_differences::differences(call, recorded, ours, &[], needed)
        }
        (Outcome::Refused(recorded, result), Outcome::Refused(message, ours)) => {
            let mut found = allowed_differences::differences(call, result, ours, &[], needed);
            found.extend(other_message(recorded, message));
            found
        }
        (Outcome::GrpcError(recorded), Outcome::GrpcError(message)) => {
            other_message(recorded, message).into_iter().collect()
        }
        (recorded, ours) => vec![format!("recorded {recorded:?}, ours {ours:?}")],
    }
}

/// Those of all rules that no comparison needed.
pub fn unneeded(needed: &BTreeSet<String>) -> Vec<String> {
    let outcomes = OTHER_OUTCOMES.iter().map(|other| other.call.to_string());
    let titles: BTreeSet<String> = allowed_differences::titles().chain(outcomes).collect();
    titles.difference(needed).cloned().collect()
}

/// Compares the shape of a domain with that of another VM: names and types of the fields, and their presence, but for
/// `absent` ones.
pub fn compare_shape(call: &RecordedCall, ours: &Value, absent: &[Rule]) -> Vec<String> {
    const OTHER_VM: &str = "another VM";
    let Outcome::Answered(recorded) = &call.outcome else {
        return vec![format!("{}: no answer", call.title())];
    };
    let rule = |path, strictness, reason| Rule {
        path,
        strictness,
        reason,
    };
    let shape = [
        rule("V", Strictness::Type, OTHER_VM),
        rule("V.Spec.Devices.*", Strictness::Elements, OTHER_VM),
        rule("V.Spec.SysInfo.System", Strictness::Elements, OTHER_VM),
        rule(
            "V.Spec.Resource",
            Strictness::Any,
            "only a libvirt that runs as root has partitions",
        ),
    ];
    let further: Vec<Rule> = shape.iter().chain(absent).copied().collect();
    let found =
        allowed_differences::differences(call, recorded, ours, &further, &mut BTreeSet::new());
    found
        .iter()
        .map(|one| format!("{}: {one}", call.title()))
        .collect()
}

/// Numbers in messages are those of processes of the guest.
fn other_message(recorded: &str, ours: &str) -> Option<String> {
    let without_pid = |text: &str| match text.split_once("guest pid [") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}guest pid [{rest}")
        }
        None => text.to_owned(),
    };
    let differs = without_pid(recorded) != without_pid(ours);
    differs.then(|| format!("message: recorded {recorded}, ours {ours}"))
}
