//! Replaces the host in native unit tests: one per thread, empty at first.
//!
//! [`native_call`](crate::native_call) calls a hook as the host does.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::Level;
use crate::pod_fact_error::FactError;
use crate::pod_network::PodNetwork;
use crate::{Description, Result, failed};

const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const NETWORK_INFO: &str = "kubevirt.io/network-info";

#[derive(Default)]
struct Host {
    log: Vec<(Level, String)>,
    invocation: BTreeMap<String, String>,
    config: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    /// The facts about the pod that the hook declares, while it is called.
    declared_facts: Option<Vec<String>>,
    /// Whether a method of the trait `Hook` was called that the hook does not implement.
    is_provided_method: bool,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
}

/// Sets a value for [`invocation`](super::invocation).
pub fn set_invocation(key: &str, value: &str) {
    HOST.with_borrow_mut(|host| host.invocation.insert(key.to_owned(), value.to_owned()));
}

/// Sets a value for [`config`](super::config).
pub fn set_config(key: &str, value: &str) {
    HOST.with_borrow_mut(|host| host.config.insert(key.to_owned(), value.to_owned()));
}

/// Sets an annotation of the pod, for [`pod::annotation`](crate::pod::annotation).
pub fn set_pod_annotation(key: &str, value: &str) {
    let (key, value) = (key.to_owned(), value.to_owned());
    HOST.with_borrow_mut(|host| host.annotations.insert(key, value));
}

/// Sets a label of the pod, for [`pod::label`](crate::pod::label).
pub fn set_pod_label(key: &str, value: &str) {
    let (key, value) = (key.to_owned(), value.to_owned());
    HOST.with_borrow_mut(|host| host.labels.insert(key, value));
}

/// Sets Multus' annotation `k8s.v1.cni.cncf.io/network-status`, a JSON list, for
/// [`pod::networks`](crate::pod::networks).
pub fn set_network_status(json: &str) {
    set_pod_annotation(NETWORK_STATUS, json);
}

/// Removes all values and log lines.
pub fn reset() {
    HOST.take();
}

/// Removes and returns the log lines.
pub fn take_log() -> Vec<(Level, String)> {
    HOST.with_borrow_mut(|host| std::mem::take(&mut host.log))
}

/// Holds the hook to its description until [`undeclare`].
pub(crate) fn declare(description: &Description) -> Result {
    HOST.with_borrow_mut(|host| {
        host.declared_facts = Some(description.pod_facts().to_vec());
        let mut keys = host.config.keys();
        match keys.find(|key| !description.config_keys().contains(key)) {
            Some(key) => Err(failed(format!(
                "the hook does not declare the configuration key {key:?}: add it with Description::with_config([{key:?}])"
            ))),
            None => Ok(()),
        }
    })
}

pub(crate) fn undeclare() {
    HOST.with_borrow_mut(|host| host.declared_facts = None);
}

pub(super) fn note_provided_method() {
    HOST.with_borrow_mut(|host| host.is_provided_method = true);
}

/// Reads and clears whether a method was called that the hook does not implement.
pub(crate) fn take_provided_method() -> bool {
    HOST.with_borrow_mut(|host| std::mem::take(&mut host.is_provided_method))
}

/// Refuses a fact that the hook which is called does not declare.
fn declared(fact: &str) -> Result<(), FactError> {
    let is_declared = HOST.with_borrow(|host| {
        let declared = host.declared_facts.as_ref();
        declared.is_none_or(|facts| facts.iter().any(|pattern| matches_pattern(pattern, fact)))
    });
    match is_declared {
        true => Ok(()),
        false => Err(FactError::Denied(format!(
            "the hook does not declare {fact}: add it with Description::with_pod_facts([{fact:?}])"
        ))),
    }
}

/// Whether a pattern, in which `*` stands for any characters, matches a name.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    name.strip_prefix(first).is_some_and(|name| {
        let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
        ends.any(|at| name.get(at..).is_some_and(|end| matches_pattern(rest, end)))
    })
}

pub(super) fn log(level: Level, message: &str) {
    HOST.with_borrow_mut(|host| host.log.push((level, message.to_owned())));
}

pub(super) fn invocation(key: &str) -> Option<String> {
    HOST.with_borrow(|host| host.invocation.get(key).cloned())
}

pub(super) fn config(key: &str) -> Option<String> {
    HOST.with_borrow(|host| host.config.get(key).cloned())
}

pub(crate) fn annotation(key: &str, wait: bool) -> Result<Option<String>, FactError> {
    let fact = format!("annotations/{key}");
    declared(&fact)?;
    let found = HOST.with_borrow(|host| host.annotations.get(key).cloned());
    found_or_absent(found, wait, &fact)
}

pub(crate) fn label(key: &str, wait: bool) -> Result<Option<String>, FactError> {
    let fact = format!("labels/{key}");
    declared(&fact)?;
    let found = HOST.with_borrow(|host| host.labels.get(key).cloned());
    found_or_absent(found, wait, &fact)
}

pub(crate) fn network_status(name: &str, wait: bool) -> Result<Vec<PodNetwork>, FactError> {
    let name = match (name.contains('/'), invocation("namespace")) {
        (false, Some(namespace)) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    declared(&format!("network-status/{name}"))?;
    let all = all_networks()?.into_iter();
    let found: Vec<_> = all.filter(|network| network.name == name).collect();
    let found = Some(found).filter(|found| !found.is_empty());
    let found = found_or_absent(found, wait, &format!("network-status/{name}"))?;
    Ok(found.unwrap_or_default())
}

pub(crate) fn default_network(wait: bool) -> Result<Option<PodNetwork>, FactError> {
    declared("default-network")?;
    let default = all_networks()?
        .into_iter()
        .find(|network| network.is_default);
    found_or_absent(default, wait, "default-network")
}

pub(crate) fn network_info(wait: bool) -> Result<Option<String>, FactError> {
    declared("network-info")?;
    let found = HOST.with_borrow(|host| host.annotations.get(NETWORK_INFO).cloned());
    found_or_absent(found, wait, "network-info")
}

/// The fact. One that is waited for and missing is an error at once, since nothing arrives later in a test.
fn found_or_absent<T>(fact: Option<T>, wait: bool, name: &str) -> Result<Option<T>, FactError> {
    match (&fact, wait) {
        (None, true) => Err(FactError::Absent(format!("{name} is not there"))),
        _ => Ok(fact),
    }
}

fn all_networks() -> Result<Vec<PodNetwork>, FactError> {
    let text = HOST.with_borrow(|host| host.annotations.get(NETWORK_STATUS).cloned());
    let entries: Vec<Value> = serde_json::from_str(&text.unwrap_or_else(|| "[]".to_owned()))
        .map_err(|error| FactError::Unreadable(format!("{NETWORK_STATUS}: {error}")))?;
    let text = |entry: &Value, member: &str| {
        let text = entry.get(member).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let network = |entry: Value| PodNetwork {
        name: text(&entry, "name"),
        pod_interface: text(&entry, "interface"),
        ips: entry
            .get("ips")
            .and_then(Value::as_array)
            .map(|ips| ips.iter().filter_map(Value::as_str).map(str::to_owned))
            .map(Iterator::collect)
            .unwrap_or_default(),
        mac: text(&entry, "mac"),
        is_default: entry.get("default") == Some(&Value::Bool(true)),
        json: entry.to_string(),
    };
    Ok(entries.into_iter().map(network).collect())
}
