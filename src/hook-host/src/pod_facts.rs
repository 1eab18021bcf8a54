//! Facts about the pod: annotations, labels and networks, which hooks read through the WIT interface `pod`.
//!
//! The facts come from the files of Kubernetes' downward API ([`DownwardApiFiles`]), which are read again for every
//! question, because annotations can appear while a VM boots. A replay answers from its record. A hook may read the
//! intersection of the module's wishes, its `hook.yaml` and the operator's policy ([`PodGrant`]).
//!
//! `pod_fact`, `pod_pattern`, `downward_api_format` and `network_status` (Multus' annotation) are pure.

mod downward_api;
pub(crate) mod network_status;
mod pod_fact_reader;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::printable::is_printable;
pub(crate) use downward_api::DownwardApiFiles;
pub use downward_api::render as render_downward_api;
pub(crate) use network_status::Network;
pub(crate) use pod_fact_reader::{CallDeadline, PodFactReader};

/// The default of [`PodConfig::wait`].
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// Where facts about the pod are read, and how long a call waits for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodConfig {
    /// The directory with the downward API's files `annotations` and `labels`, or `network-info`; `None` if there is
    /// none.
    pub dir: Option<PathBuf>,
    /// How long a call waits for facts that the pod does not have yet; 5 s by default.
    pub wait: Duration,
}

/// The default has no directory, so no facts.
impl Default for PodConfig {
    fn default() -> Self {
        Self {
            dir: None,
            wait: DEFAULT_WAIT,
        }
    }
}

/// Maximum length in bytes of the key of an annotation or label, and of a network's name, so that a pattern can contain
/// the full name of every fact. A key of Kubernetes has at most 317.
const MAX_KEY_BYTES: usize = MAX_PATTERN_BYTES - "network-status/".len();

/// A fact about the pod. `Display` prints the name of the fact, which patterns match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodFact {
    Annotation(String),
    Label(String),
    /// `NAMESPACE/NAME` of a NetworkAttachmentDefinition.
    Network(String),
    DefaultNetwork,
    NetworkInfo,
}

impl PodFact {
    /// The fact, if patterns can match its name. The error contains the reason.
    fn validated(self) -> Result<Self, String> {
        self.check_length()?;
        let name = self.to_string();
        match name.contains(|c: char| !is_printable(c) || c == '*') {
            true => Err(format!("{name:?} is not a name of a fact")),
            false => Ok(self),
        }
    }

    /// Refuses a key that is too long, without a copy of the key. The error contains the reason.
    fn check_length(&self) -> Result<(), String> {
        let (Self::Annotation(key) | Self::Label(key) | Self::Network(key)) = self else {
            return Ok(());
        };
        match key.len() {
            length if length > MAX_KEY_BYTES => Err(format!(
                "a key of {length} bytes, more than {MAX_KEY_BYTES}"
            )),
            _ => Ok(()),
        }
    }

    /// Whether the value may be a password or a key.
    fn may_be_secret(&self) -> bool {
        matches!(self, Self::Annotation(_))
    }
}

impl fmt::Display for PodFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Annotation(key) => write!(f, "annotations/{key}"),
            Self::Label(key) => write!(f, "labels/{key}"),
            Self::Network(name) => write!(f, "network-status/{name}"),
            Self::DefaultNetwork => f.write_str("default-network"),
            Self::NetworkInfo => f.write_str("network-info"),
        }
    }
}

/// Why a question has no answer. The text names the fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FactError {
    /// The fact is not granted to the hook.
    Denied(String),
    /// The pod does not have the fact.
    Absent(String),
    /// The fact cannot be read, or the call has used up its questions or bytes.
    Unreadable(String),
}

/// A question of a hook about the pod, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFactEntry {
    /// The name of the fact, such as `annotations/KEY`.
    pub fact: String,
    /// Whether the hook waits until the pod has the fact.
    pub wait: bool,
    /// The text of the fact; `None` if the pod does not have it. Networks are a JSON list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why the question has no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FactError>,
    /// Whether a record may contain the value.
    #[serde(skip)]
    pub(crate) may_be_recorded: bool,
    /// Whether the value may be a password or a key.
    #[serde(skip)]
    pub(crate) may_be_secret: bool,
}

impl PodFactEntry {
    /// Whether the hook read a value that may be a password or a key, and that records may not contain.
    pub(crate) fn is_withheld_secret(&self) -> bool {
        self.may_be_secret && !self.may_be_recorded && self.value.is_some()
    }
}

/// The source of the answers to questions about the pod.
#[derive(Clone, Default)]
pub(crate) enum PodFactSource {
    /// This host has no facts.
    #[default]
    None,
    /// The files of the pod.
    Files(Arc<DownwardApiFiles>),
    /// The answers of a record, in the order of its questions.
    Recorded(Arc<Vec<PodFactEntry>>),
}

/// The facts about the pod that a call may read. The default has no facts.
#[derive(Clone, Default)]
pub struct PodAccess {
    pub(crate) facts: PodFactSource,
    pub(crate) grant: Arc<PodGrant>,
}

impl PodAccess {
    /// Access to the facts that `patterns` match, in the files of `config`.
    #[must_use]
    pub fn new(config: PodConfig, patterns: Vec<PodPattern>) -> Self {
        let wishes = PodLayer {
            patterns,
            origin: "wishes.pod in its description".to_owned(),
        };
        let grant = PodGrant {
            layers: vec![wishes],
            recorded: Vec::new(),
        };
        Self {
            facts: PodFactSource::Files(Arc::new(DownwardApiFiles::new(config))),
            grant: Arc::new(grant),
        }
    }
}

impl fmt::Debug for PodAccess {
    /// Omits the facts, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodAccess")
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

/// The grant of a hook: a fact is granted if every layer matches it. Without layers no fact is granted.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodGrant {
    /// The layers; the first has the module's wishes.
    pub(crate) layers: Vec<PodLayer>,
    /// Patterns of the facts that records keep.
    pub(crate) recorded: Vec<PodPattern>,
}

/// The patterns of one origin.
#[derive(Debug, Clone)]
pub(crate) struct PodLayer {
    pub(crate) patterns: Vec<PodPattern>,
    /// The origin for errors, such as `allow.pod of policy.yaml:7:10`.
    pub(crate) origin: String,
}

impl PodGrant {
    /// Refuses a fact that a layer does not match. The error names the layer's origin.
    fn check(&self, fact: &PodFact) -> Result<(), String> {
        if self.layers.is_empty() {
            return Err(format!("{fact} is not granted to this hook"));
        }
        let name = fact.to_string();
        let refusing = self
            .layers
            .iter()
            .find(|layer| !layer.patterns.iter().any(|pattern| pattern.matches(&name)));
        match refusing {
            None => Ok(()),
            Some(layer) => Err(format!(
                "{name} is not granted to this hook: {} would have to contain {name:?}",
                layer.origin
            )),
        }
    }

    /// Whether records keep the fact of this name.
    fn records(&self, name: &str) -> bool {
        self.recorded.iter().any(|pattern| pattern.matches(name))
    }

    /// The patterns that the module declares.
    pub(crate) fn wishes(&self) -> &[PodPattern] {
        self.layers
            .first()
            .map_or(&[], |layer| layer.patterns.as_slice())
    }
}

/// Maximum length in bytes of a pattern.
const MAX_PATTERN_BYTES: usize = 512;

/// A pattern of facts: the name of a fact, in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct PodPattern(String);

/// Why a text is not a [`PodPattern`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodPatternError {
    /// The text is longer than any name; its length in bytes.
    #[error("a pattern of {0} bytes, more than {MAX_PATTERN_BYTES}")]
    TooLong(usize),
    /// The name has a kind that takes a key or a name, and ends there.
    #[error("{0:?} ends without its KEY or NAME; there are {kinds}", kinds = PodPattern::KINDS)]
    EmptyKey(String),
    /// No fact has such a name.
    #[error(
        "{0:?} is not a fact about a pod; there are {kinds}, and * stands for any characters of KEY or NAME",
        kinds = PodPattern::KINDS
    )]
    Unknown(String),
}

impl PodPattern {
    /// The names of all kinds of facts.
    pub(crate) const KINDS: &str =
        "annotations/KEY, labels/KEY, network-status/NAMESPACE/NAME, default-network, network-info";

    /// Parses a pattern. The error lists the kinds of facts.
    pub fn parse(text: &str) -> Result<Self, PodPatternError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PodPatternError::TooLong(text.len()));
        }
        let prefixes = ["annotations/", "labels/", "network-status/"];
        if prefixes.contains(&text) {
            return Err(PodPatternError::EmptyKey(text.to_owned()));
        }
        let is_known = ["default-network", "network-info"].contains(&text)
            || prefixes.iter().any(|prefix| text.starts_with(prefix));
        if is_known && text.chars().all(is_printable) {
            return Ok(Self(text.to_owned()));
        }
        Err(PodPatternError::Unknown(text.to_owned()))
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a fact's name, such as `annotations/KEY`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

impl fmt::Display for PodPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Matches with `*` for any bytes. Backtracking goes to the last `*` only, so the number of steps is at most the
/// product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((star_index, start)) = star {
            (p, t) = (star_index + 1, start + 1);
            star = Some((star_index, start + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
