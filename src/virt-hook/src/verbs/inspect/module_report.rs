//! The report of `inspect`: the properties of a module.

use std::path::PathBuf;

use hook_host::ConditionedPath;
use hook_host::policy::UnknownPath;
use hook_host::wasm::{ComponentInterfaces, Interface, Module};
use serde::Serialize;

use super::minimal_policy::MinimalPolicy;
use crate::compiled_module_cache::CompileCost;
use crate::output::{Report, Style, TerminalEscaped};
use crate::verbs::sign_and_verify::DateInModule;

/// The properties of a module.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModuleReport {
    /// The name in its description.
    pub(crate) name: String,
    /// The version in its description; may be empty.
    pub(crate) version: String,
    /// The hook points that the module subscribes to.
    pub(crate) hook_points: Vec<Point>,
    /// The module's wishes; without any it may change nothing of the domain.
    pub(crate) wishes: Option<WishReport>,
    /// The sha256 of the file in hexadecimal, which policies pin.
    pub(crate) sha256: String,
    /// Size of the file in bytes.
    pub(crate) bytes: u64,
    /// The date of signing in the module.
    #[serde(flatten)]
    pub(super) date: DateInModule,
    /// The imported interfaces.
    pub(crate) imports: Vec<InterfaceReport>,
    /// The exported interfaces.
    pub(crate) exports: Vec<InterfaceReport>,
    /// Duration of compiling in milliseconds, including the start of the compile process.
    pub(crate) compile_millis: Option<u64>,
    /// Peak memory of the compile process in bytes.
    pub(crate) compile_peak_memory: Option<u64>,
    /// The content of `allow` of the minimal operator's policy that grants its wishes.
    policy: MinimalPolicy,
    /// Whether the text of the report is the policy alone.
    #[serde(skip)]
    pub(super) is_policy_only: bool,
}

/// A hook point with its priority.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) priority: i32,
}

/// The declared wishes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WishReport {
    /// The paths of the domain that the module changes.
    pub(crate) paths: Vec<ConditionedPath>,
    /// Declared paths that libvirt's domain format does not have, with the probably intended path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unknown_paths: Vec<String>,
    /// The configuration keys that the module reads.
    pub(crate) config: Vec<String>,
    /// The directories that the module reads.
    pub(crate) dirs: Vec<PathBuf>,
    /// The parameters of a migration that the module changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) migration: Vec<String>,
    /// The facts about the pod that the module reads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod: Vec<String>,
}

/// An interface and its functions.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct InterfaceReport {
    pub(crate) name: String,
    pub(crate) functions: Vec<String>,
}

impl ModuleReport {
    pub(crate) fn new(module: &Module, bytes: u64, cost: Option<&CompileCost>) -> Self {
        let description = module.description();
        let ComponentInterfaces { imports, exports } = module.interfaces();
        let points = description.hook_points.iter().map(|subscription| Point {
            name: subscription.point.name(),
            priority: subscription.priority,
        });
        let wishes = description.wishes.as_ref().map(|wishes| WishReport {
            paths: wishes.paths.clone(),
            unknown_paths: (wishes.paths.iter())
                .filter_map(|path| UnknownPath::of(path.path()))
                .map(|unknown| unknown.to_string())
                .collect(),
            config: wishes.config.clone(),
            dirs: wishes.dirs.clone(),
            migration: wishes.migration.iter().map(ToString::to_string).collect(),
            pod: wishes.pod.iter().map(ToString::to_string).collect(),
        });
        Self {
            name: description.name.clone(),
            version: description.version.clone(),
            hook_points: points.collect(),
            wishes,
            sha256: module.digest().to_owned(),
            bytes,
            date: DateInModule::default(),
            imports: imports.into_iter().map(InterfaceReport::from).collect(),
            exports: exports.into_iter().map(InterfaceReport::from).collect(),
            compile_millis: cost.map(|cost| cost.millis),
            compile_peak_memory: cost.and_then(|cost| cost.peak_memory),
            policy: MinimalPolicy::for_module(description),
            is_policy_only: false,
        }
    }

    fn write_wishes(&self, text: &mut String) {
        let Some(wishes) = &self.wishes else {
            *text += "wishes       none declared: it may not change the domain\n";
            return;
        };
        let dirs = wishes.dirs.iter().map(|dir| dir.display().to_string());
        let lists: [(_, Vec<String>); 3] = [
            (
                "changes",
                wishes.paths.iter().map(ToString::to_string).collect(),
            ),
            ("config", wishes.config.clone()),
            ("reads", dirs.collect()),
        ];
        for (title, list) in lists {
            rows(
                text,
                title,
                list.iter().map(|item| TerminalEscaped(item).to_string()),
            );
        }
        for (title, list) in [
            ("migration", &wishes.migration),
            ("pod", &wishes.pod),
            ("misspelt?", &wishes.unknown_paths),
        ] {
            if !list.is_empty() {
                rows(
                    text,
                    title,
                    list.iter().map(|item| TerminalEscaped(item).to_string()),
                );
            }
        }
    }
}

impl From<Interface> for InterfaceReport {
    fn from(interface: Interface) -> Self {
        let Interface { name, functions } = interface;
        Self { name, functions }
    }
}

impl Report for ModuleReport {
    fn text(&self, style: Style) -> String {
        if self.is_policy_only {
            return self.policy.yaml();
        }
        let name = format!(
            "{} {}",
            TerminalEscaped(&self.name),
            TerminalEscaped(&self.version)
        );
        let mut text = format!("{}\n", style.strong(name.trim()));
        let points = self.hook_points.iter();
        let points = points.map(|point| format!("{} (priority {})", point.name, point.priority));
        rows(&mut text, "hook points", points);
        self.write_wishes(&mut text);
        text += &format!("sha256       {}\n", self.sha256);
        text += &format!("size         {} bytes\n", self.bytes);
        if let Some(date) = self.date.text() {
            let date = date.strip_prefix("dated ").unwrap_or(&date);
            text += &format!("dated        {}\n", TerminalEscaped(date));
        }
        if let Some(millis) = self.compile_millis {
            let peak = self.compile_peak_memory;
            let peak = peak.map_or(String::new(), |peak| {
                format!(", {} MiB at most", peak >> 20)
            });
            text += &format!("compiled in  {millis} ms{peak}\n");
        }
        rows(&mut text, "exports", interface_lines(&self.exports));
        let (of_hooks, wasi): (Vec<_>, Vec<_>) = self
            .imports
            .iter()
            .cloned()
            .partition(|import| !import.name.starts_with("wasi:"));
        rows(&mut text, "imports", interface_lines(&of_hooks));
        if !wasi.is_empty() {
            let count = wasi.len();
            text += &format!("             {count} of WASI, which give access to nothing\n");
        }
        text + &format!(
            "\nThe minimal operator's policy that it needs:\n\n{}",
            self.policy.yaml()
        )
    }
}

fn interface_lines(interfaces: &[InterfaceReport]) -> impl Iterator<Item = String> {
    interfaces.iter().map(|interface| {
        let functions = interface.functions.join(", ");
        let line = format!("{} ({functions})", interface.name).replace(" ()", "");
        TerminalEscaped(&line).to_string()
    })
}

/// Appends a title with its first row, and the other rows below.
fn rows(text: &mut String, title: &str, rows: impl Iterator<Item = String>) {
    let mut title = title;
    for row in rows {
        *text += &format!("{title:<12} {row}\n");
        title = "";
    }
    if !title.is_empty() {
        *text += &format!("{title:<12} none\n");
    }
}
