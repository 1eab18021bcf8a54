//! Errors about files and objects without a usable VMI.

use hook_host::printable;
use kubevirt_api::strict_json_or_yaml::SyntaxError;
use kubevirt_api::vmi::VmiError;
use serde_json::Value;

use super::objects_of_file::Place;

/// Maximum number of bytes of a text that is not a manifest in an error.
const MAX_SHOWN: usize = 40;
/// The end of errors about a file without a VMI.
const EXPECTED_MANIFEST: &str = "give the manifest of a VirtualMachineInstance or a VirtualMachine, in YAML or \
    JSON, as kubectl get vmi NAME -o yaml prints it";

/// An error about a file or object without a usable VMI.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    #[error("it is empty: {EXPECTED_MANIFEST}")]
    Empty,
    /// The file has a format that is neither YAML nor JSON.
    #[error("it is {0}: {EXPECTED_MANIFEST}")]
    OtherFormat(&'static str),
    #[error("{0}: {EXPECTED_MANIFEST}")]
    Syntax(#[from] SyntaxError),
    #[error("it holds {0} and nothing else: {EXPECTED_MANIFEST}")]
    NotAnObject(String),
    #[error(
        "this is a {kind}, neither a VirtualMachineInstance nor a VirtualMachine: {EXPECTED_MANIFEST}"
    )]
    Kind { kind: String },
    #[error("the VirtualMachine's field {0} is missing")]
    Missing(&'static str),
    #[error("the {kind}'s field {field} is missing")]
    MissingIn {
        kind: &'static str,
        field: &'static str,
    },
    /// A file that should have instance types or preferences has none.
    #[error("it has neither instance types nor preferences")]
    NoInstanceTypes,
    /// The VM does not fit to its instance type or preference.
    #[error("the VirtualMachine is refused: {0}")]
    InstanceType(String),
    /// The VM's instance type or preference is not known. An API server takes such a VM, but virt-controller makes no VMI of it.
    #[error(
        "a cluster without it makes no VMI of the VirtualMachine ({condition}): its {what} {reason}"
    )]
    NotFound {
        /// The reason of the VM's condition in a cluster.
        condition: &'static str,
        what: &'static str,
        reason: String,
    },
    #[error("the list has no items")]
    NoItems,
    /// An annotation or a label that YAML reads as a number or another type.
    #[error("{path} is {value}, which YAML does not read as text: put it in quotes")]
    Unquoted { path: String, value: String },
    /// The object is a VMI that is refused.
    #[error(transparent)]
    Vmi(#[from] VmiError),
    /// An object among others.
    #[error("{place}: {error}")]
    At {
        place: Place,
        /// The error about the object.
        error: Box<ManifestError>,
    },
}

impl ManifestError {
    /// Whether there is a VMI that is refused. Otherwise the file cannot be used.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Vmi(error) => !matches!(error, VmiError::TooLarge { .. }),
            Self::Unquoted { .. } | Self::InstanceType(_) | Self::NotFound { .. } => true,
            Self::At { error, .. } => error.is_refusal(),
            _ => false,
        }
    }

    /// The error itself, for an object among others.
    pub(crate) fn innermost(&self) -> &Self {
        match self {
            Self::At { error, .. } => error.innermost(),
            other => other,
        }
    }

    /// Whether the object is of a kind that carries no VM.
    pub(super) fn is_about_another_kind(&self) -> bool {
        matches!(self, Self::Kind { .. })
    }

    pub(super) fn missing_in(kind: &'static str, field: &'static str) -> Self {
        Self::MissingIn { kind, field }
    }

    /// The error with the place of the object.
    pub(super) fn at(self, place: Place) -> Self {
        Self::At {
            place,
            error: self.into(),
        }
    }
}

/// The format of bytes that are mistaken for a manifest; `None` if they may be YAML or JSON.
pub(super) fn other_format(bytes: &[u8]) -> Option<&'static str> {
    let start = bytes.trim_ascii_start();
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Some("text in UTF-16, and only UTF-8 is read");
    }
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
        return Some("binary data");
    }
    // YAML's merge key is `<<`.
    (start.starts_with(b"<") && !start.starts_with(b"<<")).then_some("XML")
}

/// Describes a value that is not a Kubernetes object.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Null => "the value null".to_owned(),
        Value::Bool(value) => format!("the truth value {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text \"{}\"", printable(text, MAX_SHOWN)),
        Value::Array(list) => match list.len() {
            0 => "an empty list".to_owned(),
            1 => "a list of one value".to_owned(),
            count => format!("a list of {count} values"),
        },
        Value::Object(_) => "an object without kind, metadata and spec".to_owned(),
    }
}
