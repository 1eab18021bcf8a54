//! Checks of names that Kubernetes, KubeVirt and the admission policies accept.

use std::path::Path;

use anyhow::anyhow;

use crate::verb_failure::Failure;
use crate::verbs::image::is_hook_name;

/// Prefixes of hook names that the guard policy of deploy/admission refuses in annotations of VMs.
const RESERVED_PREFIXES: [&str; 2] = ["namespace-", "image-"];
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

/// Checks a hook's name, which becomes that of its directory, volume, ConfigMap and Plugin.
pub(super) fn check_hook(name: &str, module: &Path) -> Result<(), Failure> {
    if is_hook_name(name) {
        return Ok(());
    }
    let suggested: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let suggested = suggested.trim_matches('-').to_owned();
    let way_out = if is_hook_name(&suggested) {
        format!("--name {suggested}")
    } else {
        "--name NAME".to_owned()
    };
    Err(Failure::usage(anyhow!(
        "{}: {name:?} cannot be the name of a hook in a cluster: a-z, 0-9 and -, at most 42 characters; give it one \
         with {way_out}",
        module.display()
    )))
}

/// Checks the name of a standing hook of a VM, which must not be one that the guard policy reserves.
pub(super) fn check_standing_hook(name: &str) -> Result<(), Failure> {
    match RESERVED_PREFIXES
        .iter()
        .find(|prefix| name.starts_with(**prefix))
    {
        None => Ok(()),
        Some(prefix) => Err(Failure::usage(anyhow!(
            "{name}: the guard keeps names that begin with {prefix} for hooks of namespaces and of the launcher's image; \
             give the hook another one with --name NAME"
        ))),
    }
}

/// Checks the namespace that an option names.
pub(super) fn check_namespace(option: &str, name: &str) -> Result<(), Failure> {
    if is_dns_label(name) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "{option} {name}: it is not a name of a namespace: a-z, 0-9 and -, at most {MAX_LABEL} characters"
    )))
}

/// Checks the domain before the slash in the names of annotations.
pub(super) fn check_domain(name: &str) -> Result<(), Failure> {
    if name.len() <= MAX_SUBDOMAIN && name.split('.').all(is_dns_label) {
        return Ok(());
    }
    Err(Failure::usage(anyhow!(
        "--domain {name}: it is not a DNS name: give the annotation prefix of the admission policies"
    )))
}

/// Whether Kubernetes accepts a label with this value.
pub(super) fn is_pod_label(key: &str, value: &str) -> bool {
    let (prefix, name) = match key.rsplit_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let is_subdomain =
        |prefix: &str| prefix.len() <= MAX_SUBDOMAIN && prefix.split('.').all(is_dns_label);
    prefix.is_none_or(is_subdomain)
        && is_label_word(name)
        && (value.is_empty() || is_label_word(value))
}

/// Whether a word can be the name, without prefix, or the value of a label.
fn is_label_word(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = word.as_bytes();
    bytes.len() <= MAX_LABEL
        && bytes.iter().copied().all(fits)
        && is_end(bytes.first())
        && is_end(bytes.last())
}

/// Whether a name is an RFC 1123 label.
fn is_dns_label(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty()
        && name.len() <= MAX_LABEL
        && name.bytes().all(fits)
        && !name.starts_with('-')
        && !name.ends_with('-')
}
