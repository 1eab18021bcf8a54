//! The VMI: typed accessors for common fields, paths for all others.

mod devices;
mod json;
mod json_scan;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use elsa::FrozenVec;

use crate::dotted_path::Step;

pub use devices::{Disk, HostDevice, Interface, Network, Volume};
pub use json::Json;

/// The virtual machine instance, read-only.
///
/// It is parsed lazily: reading one annotation is one scan of the text, up to it.
///
/// ```
/// # use hooks_sdk::Vmi;
/// let vmi = Vmi::new(r#"{"metadata":{"name":"vm","labels":{"team":"a"}},"spec":{"domain":{"cpu":{"cores":2}}}}"#);
/// assert_eq!(vmi.name(), "vm");
/// assert_eq!(vmi.label("team"), Some("a"));
/// assert_eq!(vmi.number("spec.domain.cpu.cores"), Some(2));
/// ```
#[derive(Clone)]
pub struct Vmi {
    raw: String,
    /// Unescaped texts.
    unescaped: FrozenVec<String>,
    parse_error: OnceCell<VmiError>,
}

/// A text that is not a virtual machine instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmiError(String);

impl fmt::Display for VmiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the VMI cannot be read: {}", self.0)
    }
}

impl std::error::Error for VmiError {}

impl fmt::Debug for Vmi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vmi").field(&self.raw).finish()
    }
}

impl Vmi {
    /// A VMI from its JSON, which is not parsed yet. If it turns out to be invalid, accessors return
    /// `None`, and the hook fails at its end with the place in the text.
    pub fn new(json: impl Into<String>) -> Vmi {
        Vmi {
            raw: json.into(),
            unescaped: FrozenVec::new(),
            parse_error: OnceCell::new(),
        }
    }

    /// The original text.
    pub fn raw_json(&self) -> &str {
        &self.raw
    }

    /// The whole VMI.
    pub fn json(&self) -> Json<'_> {
        Json {
            vmi: self,
            raw: &self.raw,
        }
    }

    /// The first parse error so far. A hook need not check it: the SDK does at the end of the
    /// call.
    pub fn parse_error(&self) -> Option<&VmiError> {
        let is_object = self.raw.trim_start().starts_with('{');
        if !is_object {
            self.note("it is no JSON object".to_owned());
        }
        self.parse_error.get()
    }

    fn note(&self, what: String) {
        // The first error explains later ones.
        let _ = self.parse_error.set(VmiError(what));
    }

    fn readable<T>(&self, read: Result<T, json_scan::Malformed>) -> Option<T> {
        read.map_err(|error| self.note(error.to_string())).ok()
    }

    fn keep<'v>(&'v self, text: Cow<'v, str>) -> &'v str {
        match text {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => self.unescaped.push_get(text),
        }
    }

    /// The VMI's name; empty if there is none.
    pub fn name(&self) -> &str {
        self.text("metadata.name").unwrap_or_default()
    }

    /// The VMI's namespace; empty if there is none.
    pub fn namespace(&self) -> &str {
        self.text("metadata.namespace").unwrap_or_default()
    }

    /// The VMI's uid; empty if there is none.
    pub fn uid(&self) -> &str {
        self.text("metadata.uid").unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.entry("annotations", name)
    }

    /// All annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.annotations")
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.entry("labels", name)
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("metadata.labels")
    }

    fn entry(&self, map: &str, name: &str) -> Option<&str> {
        let steps = [
            Step::Member("metadata"),
            Step::Member(map),
            Step::Member(name),
        ];
        self.json().walk(&steps)?.as_str()
    }

    fn texts(&self, path: &str) -> impl Iterator<Item = (&str, &str)> {
        let members = self.get(path).into_iter().flat_map(Json::members);
        members.filter_map(|(name, value)| Some((name, value.as_str()?)))
    }

    /// The VirtualMachine that this is an instance of, if one owns it.
    pub fn virtual_machine(&self) -> Option<&str> {
        self.text("metadata.ownerReferences[kind=VirtualMachine].name")
    }

    /// The node on which it runs or will run.
    pub fn node_name(&self) -> Option<&str> {
        self.text("status.nodeName")
    }

    /// The CPU architecture, like `amd64`.
    pub fn architecture(&self) -> Option<&str> {
        self.text("spec.architecture")
    }

    /// The machine type, like `q35` or `pc-q35-rhel9.6.0`.
    pub fn machine_type(&self) -> Option<&str> {
        self.text("spec.domain.machine.type")
    }

    /// The memory that the guest sees, as a Kubernetes quantity (`2Gi`).
    pub fn guest_memory(&self) -> Option<&str> {
        self.text("spec.domain.memory.guest")
    }

    /// The memory that the guest sees, in bytes.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"domain":{"memory":{"guest":"2Gi"}}}}"#);
    /// assert_eq!(vmi.guest_memory_bytes(), Some(2 << 30));
    /// ```
    pub fn guest_memory_bytes(&self) -> Option<u64> {
        self.quantity("spec.domain.memory.guest")
    }

    /// The node selector: labels that a node must have.
    pub fn node_selector(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts("spec.nodeSelector")
    }

    /// How many vCPUs the guest starts with: sockets, cores and threads, each 1 by default.
    pub fn vcpus(&self) -> u64 {
        let cpu = self.get("spec.domain.cpu");
        let count = |what: &str| {
            let said = cpu.and_then(|cpu| cpu.get(what)).and_then(Json::as_i64);
            said.and_then(|count| u64::try_from(count).ok())
                .map_or(1, |count| count.max(1))
        };
        count("sockets")
            .saturating_mul(count("cores"))
            .saturating_mul(count("threads"))
    }

    /// The value at a path: names joined by dots, `[0]` for an item of a list, `['a.b/c']` for a
    /// name with dots, `[name=root]` for the item of a list with that member.
    ///
    /// ```
    /// # let vmi = hooks_sdk::Vmi::new(r#"{"spec":{"volumes":[{"name":"root","emptyDisk":{"capacity":"1Gi"}}]}}"#);
    /// assert_eq!(vmi.text("spec.volumes[name=root].emptyDisk.capacity"), Some("1Gi"));
    /// assert!(vmi.get("spec.volumes[1]").is_none());
    /// ```
    pub fn get(&self, path: &str) -> Option<Json<'_>> {
        self.json().get(path)
    }

    /// The text at a path; `None` if there is no text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// The integer at a path; `None` if there is no integer.
    pub fn number(&self, path: &str) -> Option<i64> {
        self.get(path)?.as_i64()
    }

    /// The value of the Kubernetes quantity at a path, rounded up to an integer;
    /// `None` if there is no quantity, or a negative one.
    pub fn quantity(&self, path: &str) -> Option<u64> {
        self.get(path)?.as_quantity()
    }

    /// Whether the value at the path is `true`.
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).and_then(Json::as_bool) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const VMI: &str = r#" {"metadata":{"name":"vm","namespace":"ns","uid":"u","labels":{"app":"x"},
        "annotations":{"a.b/c":"d","n":"1","esc\"aped":"li\nne"},
        "ownerReferences":[{"kind":"VirtualMachineInstanceReplicaSet","name":"no"},{"kind":"VirtualMachine","name":"web"}]},
        "spec":{"nodeSelector":{"zone":"a","kubernetes.io/arch":"amd64"},
        "domain":{"cpu":{"cores":2,"threads":2},"memory":{"guest":"1.5Gi"}},"volumes":[{"name":"root"}],"on":true},"ours":null}"#;

    #[test]
    fn metadata_is_at_hand_and_the_rest_by_path() {
        let vmi = Vmi::new(VMI);
        assert_eq!((vmi.name(), vmi.namespace(), vmi.uid()), ("vm", "ns", "u"));
        assert_eq!(vmi.annotation("a.b/c"), Some("d"));
        assert_eq!(vmi.annotation("esc\"aped"), Some("li\nne"));
        let annotations: Vec<_> = vmi.annotations().collect();
        assert_eq!(
            annotations,
            [("a.b/c", "d"), ("n", "1"), ("esc\"aped", "li\nne")]
        );
        assert_eq!(vmi.labels().collect::<Vec<_>>(), [("app", "x")]);
        assert_eq!(vmi.label("none"), None);
        assert_eq!(vmi.number("spec.domain.cpu.cores"), Some(2));
        assert_eq!(vmi.vcpus(), 4);
        assert_eq!(vmi.virtual_machine(), Some("web"));
        let labels: Vec<_> = vmi.node_selector().collect();
        assert_eq!(labels, [("zone", "a"), ("kubernetes.io/arch", "amd64")]);
        assert_eq!(vmi.guest_memory_bytes(), Some(3 << 29));
        assert_eq!(vmi.quantity("spec.domain.cpu.cores"), Some(2));
        assert_eq!(vmi.quantity("metadata.name"), None);
        assert_eq!(vmi.text("metadata.annotations['a.b/c']"), Some("d"));
        assert_eq!(vmi.text("spec.volumes[0].name"), Some("root"));
        assert!(vmi.is_true("spec.on") && !vmi.is_true("spec"));
        assert_eq!(vmi.raw_json(), VMI);
        assert_eq!(vmi.parse_error(), None);
    }

    #[test]
    fn a_path_that_leads_nowhere_is_none() {
        let vmi = Vmi::new(VMI);
        for path in [
            "x",
            "spec.volumes[1]",
            "spec.volumes[x]",
            "spec.volumes[",
            "spec.volumes['",
            "spec.on.x",
            "metadata.name.x",
            "..",
            "spec.volumes[name=y]",
            "spec.domain[name=y]",
        ] {
            assert!(vmi.get(path).is_none(), "{path}");
        }
        assert_eq!(vmi.parse_error(), None);
    }

    #[test]
    fn it_is_read_up_to_what_is_asked_and_no_further() {
        let vmi = Vmi::new(r#"{"metadata":{"name":"vm"},"spec":#"#);
        assert_eq!((vmi.name(), vmi.parse_error()), ("vm", None));
        assert_eq!(vmi.text("spec.x"), None);
        let parse_error = vmi.parse_error().unwrap().to_string();
        assert_eq!(
            parse_error,
            "the VMI cannot be read: expected a value at line 1, column 34"
        );
    }

    #[test]
    fn what_is_no_vmi_says_why() {
        let parse_error = |text: &str| {
            let vmi = Vmi::new(text);
            assert_eq!(vmi.name(), "");
            vmi.parse_error().map(ToString::to_string)
        };
        assert!(
            parse_error("{")
                .unwrap()
                .contains("expected a text at line 1, column 2")
        );
        assert_eq!(
            parse_error("[]").unwrap(),
            "the VMI cannot be read: it is no JSON object"
        );
        assert_eq!(parse_error("{}"), None);
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, number) in [
            ("0", Some(0)),
            ("2Gi", Some(2 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("128M", Some(128_000_000)),
            ("1k", Some(1000)),
            ("100m", Some(1)),
            ("1500m", Some(2)),
            ("2000000u", Some(2)),
            ("2000000001n", Some(3)),
            ("1e3", Some(1000)),
            ("1E3", Some(1000)),
            ("12e-1", Some(2)),
            ("1e-99", Some(1)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("+1", Some(1)),
            (".5Ki", Some(512)),
            ("7Ei", Some(7 << 60)),
            ("8Ei", None),
            ("-1", None),
            ("", None),
            ("Gi", None),
            ("1gi", None),
            ("1e", None),
            ("１", None),
        ] {
            let vmi = Vmi::new(format!(r#"{{"q":"{text}"}}"#));
            assert_eq!(vmi.quantity("q"), number, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_no_crash() {
        let vmi = Vmi::new(format!("{{\"a\":{}", "[".repeat(100_000)));
        assert_eq!(vmi.name(), "");
        assert!(vmi.parse_error().is_some());
    }
}
