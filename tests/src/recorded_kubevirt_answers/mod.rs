//! The answers of KubeVirt's launcher that were recorded in `tests/corpus/launcher-calls`, and their comparison with
//! the answers of this launcher.
//!
//! A recording has the view of virt-handler's client: the result of a successful call, or the message of a refusal.
//! [`comparison`] finds differences in names, types, presence and values; `allowed_differences` and `allowed_outcomes`
//! list the intended ones, and [`calls_not_replayed`] the calls that are not compared.

mod allowed_differences;
mod allowed_outcomes;
mod call_pattern;
pub mod call_replay;
pub mod calls_not_replayed;
pub mod comparison;
pub mod outcome_comparison;

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::binaries::workspace;

/// A call of virt-handler's client, and its outcome.
#[derive(Clone, Debug)]
pub struct RecordedCall {
    /// The topic of the recording, like `02-answers`.
    pub topic: String,
    /// The place in the topic, from 0.
    pub index: usize,
    /// The name of the call, like `getdomain`.
    pub method: String,
    /// The arguments of the call.
    pub args: Vec<String>,
    /// The outcome of the call.
    pub outcome: Outcome,
}

/// The result of a call in virt-handler's client.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Success, with the content of the answer, or null if it is empty.
    Answered(Value),
    /// `success=false` with this message, and the other content of the answer.
    Refused(String, Value),
    /// A gRPC error with code UNKNOWN and this message.
    GrpcError(String),
    /// No answer within the client's deadline, or no connection.
    Lost(String),
}

impl RecordedCall {
    fn read(topic: &str, index: usize, call: &Value) -> Option<RecordedCall> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let args = call["args"].as_array()?;
        Some(RecordedCall {
            topic: topic.to_owned(),
            index,
            method: text(&args[0])?,
            args: args.iter().skip(1).filter_map(text).collect(),
            outcome: outcome(call),
        })
    }

    /// The title of the call in a list of differences.
    pub fn title(&self) -> String {
        format!(
            "{} call {}: {} {}",
            self.topic,
            self.index,
            self.method,
            self.args.join(" ")
        )
    }
}

fn outcome(call: &Value) -> Outcome {
    let result = call["result"].clone();
    let Some(error) = call["error"].as_str().or(call["raw"].as_str()) else {
        return Outcome::Answered(result);
    };
    if let Some(message) = error.strip_prefix("rpc error: code = Unknown desc = ") {
        return Outcome::GrpcError(message.to_owned());
    }
    if let Some(message) = error.strip_prefix("RedefineCheckpoint failed: ") {
        return Outcome::Refused(message.to_owned(), result);
    }
    let refusal = error.strip_prefix("server error. command ");
    let quoted = refusal.and_then(|text| text.split_once(" failed: \"")?.1.strip_suffix('"'));
    match quoted {
        Some(message) => Outcome::Refused(message.to_owned(), Value::Null),
        None => Outcome::Lost(error.to_owned()),
    }
}

/// The calls of a topic in their order.
pub fn calls(topic: &str) -> Result<Vec<RecordedCall>> {
    let file = directory().join(format!("{topic}.calls.json"));
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let calls: Vec<Value> = serde_json::from_str(&text)?;
    let read = |(index, call)| RecordedCall::read(topic, index, call);
    let read: Option<Vec<_>> = calls.iter().enumerate().map(read).collect();
    read.with_context(|| format!("{}: a call has no args", file.display()))
}

/// The names of all topics, sorted.
pub fn topics() -> Result<Vec<String>> {
    let names =
        fs::read_dir(directory())?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let topics = names.filter_map(|name| Some(name.strip_suffix(".calls.json")?.to_owned()));
    let mut topics: Vec<_> = topics.collect();
    topics.sort();
    Ok(topics)
}

/// The VMI with this name that virt-handler sent in the recordings.
pub fn vmi(name: &str) -> Result<Value> {
    let file = directory().join(format!("{name}.vmi.json"));
    let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn directory() -> std::path::PathBuf {
    workspace().join("tests/corpus/launcher-calls")
}
