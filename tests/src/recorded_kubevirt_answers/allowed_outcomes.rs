//! The recorded calls whose replay may have another outcome.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::call_pattern::{CallPattern, call};
use super::{Outcome, calls};

/// A call whose replay may have another outcome: success instead of a refusal or the reverse, another answer, or
/// another message.
pub(super) struct AllowedOutcome {
    pub(super) call: CallPattern,
    /// The expected answer, if the call may succeed.
    pub(super) answer: Option<fn() -> Result<Value>>,
    /// A text in the expected message, if the call may be refused.
    pub(super) refusal: Option<&'static str>,
    pub(super) reason: &'static str,
}

const fn may_succeed(
    call: CallPattern,
    answer: fn() -> Result<Value>,
    reason: &'static str,
) -> AllowedOutcome {
    AllowedOutcome {
        call,
        answer: Some(answer),
        refusal: None,
        reason,
    }
}

const fn may_fail(call: CallPattern, text: &'static str, reason: &'static str) -> AllowedOutcome {
    AllowedOutcome {
        call,
        answer: None,
        refusal: Some(text),
        reason,
    }
}

const fn may_succeed_or_fail(
    call: CallPattern,
    answer: fn() -> Result<Value>,
    text: &'static str,
    reason: &'static str,
) -> AllowedOutcome {
    AllowedOutcome {
        call,
        answer: Some(answer),
        refusal: Some(text),
        reason,
    }
}

const UNESCAPED: &str =
    "KubeVirt's launcher puts the arguments into the agent's command without escaping them";
const NEWER_AGENT: &str = "QEMU's agent knows the load and the routes since 9.1";

/// All calls that may have another outcome.
pub(super) const ALLOWED_OUTCOMES: &[AllowedOutcome] = &[
    may_succeed(
        call("02-answers", 13, "exec"),
        || Ok(json!({ "exitCode": 0, "stdout": "x".repeat(200_000) })),
        UNESCAPED,
    ),
    may_succeed(
        call("02-answers", 15, "exec"),
        || Ok(json!({ "exitCode": 0, "stdout": "\u{fffd}\u{fffd}bin" })),
        UNESCAPED,
    ),
    may_succeed(
        call("02-answers", 20, "vmstats"),
        || {
            with_fields(
                recorded_answer("02-vmstats", 2)?,
                &[("DirtyRateMbps", json!(0))],
            )
        },
        "docs/command-service.md, GetDomainDirtyRateStats: the answer is that of its own measurement, the first one included",
    ),
    may_fail(
        call("02-answers", 25, "launchmeasurement"),
        "no SEV",
        "docs/command-service.md, GetLaunchMeasurement: a guest without SEV is an error that says so",
    ),
    may_succeed_or_fail(
        call("02-vmstats", 1, "vmstats"),
        all_agent_statistics,
        "agent data guest-",
        NEWER_AGENT,
    ),
    may_succeed_or_fail(
        call("02-vmstats", 3, "vmstats"),
        || with_fields(no_agent_statistics()?, &[load_statistics()]),
        "agent data guest-get-load",
        NEWER_AGENT,
    ),
    may_succeed_or_fail(
        call("02-vmstats", 14, "vmstats"),
        || with_fields(no_agent_statistics()?, &[empty_routes()]),
        "agent data guest-network-get-route",
        NEWER_AGENT,
    ),
    may_succeed(
        call("03-freeze", 9, "guestinfo"),
        || {
            let commands = recorded_answer("03-freeze", 6)?["supportedCommands"].clone();
            let answer = recorded_answer("03-freeze", 9)?;
            with_fields(answer, &[("supportedCommands", commands)])
        },
        "docs/command-service.md, GetGuestInfo: a frozen agent is not asked for its commands, so that they stay enabled",
    ),
    may_succeed(
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

/// The recorded answer to a request for the agent's time with the time removed: an answer without statistics.
fn no_agent_statistics() -> Result<Value> {
    let answer = recorded_answer("02-vmstats", 6)?;
    with_fields(answer, &[("GuestGetTime", json!(""))])
}

fn load_statistics() -> (&'static str, Value) {
    let load_statistics = json!({ "return": { "load1m": 0.5, "load5m": 0.5, "load15m": 0.5 } });
    ("GuestGetLoad", json!(load_statistics.to_string()))
}

/// The statistics of a guest without a route.
fn empty_routes() -> (&'static str, Value) {
    ("GuestNetworkGetRoute", json!(r#"{"return":[]}"#))
}

/// One answer with all of the agent's statistics, merged from the recorded answers that have one of them each.
fn all_agent_statistics() -> Result<Value> {
    let mut all = with_fields(no_agent_statistics()?, &[load_statistics(), empty_routes()])?;
    for index in (4..=13).chain(15..=16) {
        let answer = recorded_answer("02-vmstats", index)?;
        for (name, value) in answer.as_object().context("no object")? {
            if name.starts_with("Guest") && *value != json!("") {
                all[name] = value.clone();
            }
        }
    }
    Ok(all)
}
