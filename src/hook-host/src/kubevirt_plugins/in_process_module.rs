//! A module that replaces a plugin's sidecar: a `hook.wasm` beside `hook.sock` runs in this process.
//!
//! `virt-hook serve --plugin` calls the same hook points for `MutateDomain`, so that one Plugin works
//! with every launcher.

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::plugin_socket::PluginSocket;
use crate::hook::Hook;
use crate::hook_body::{HookBody, HookCall, HookInput, HookOutput, HookReport};
use crate::{HookPoint, Limits};

/// Loads modules of plugins, with the settings from `hook.yaml` and the operator's policy.
pub(crate) trait LoadModule: Send + Sync {
    /// Loads a module whose calls have the limits `limits`; `describe` has the limits of any module.
    fn load_module<'a>(
        &'a self,
        file: &'a ModuleFile,
        limits: Limits,
    ) -> BoxFuture<'a, Result<Hook, PluginLoadError>>;

    /// The position of a `final: true` of the operator's policy that may apply to a module of which nothing is known.
    fn final_rule_of_unknown_module(&self) -> Option<String>;
}

/// Why a plugin's module cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct PluginLoadError {
    pub(crate) reason: String,
    /// The position of the `final: true` of the operator's policy that names the module, or may name it. The failure of
    /// a final hook is never ignored.
    pub(crate) final_rule: Option<String>,
}

/// The file of a module in a plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleFile {
    pub(crate) plugin: String,
    pub(crate) file: String,
}

impl PluginSocket {
    /// The module beside the socket, if there is one: `NAME.wasm` for `NAME.sock`. Only the plugin's
    /// own directory can contain the module, not a sub-directory.
    pub(super) fn module(&self) -> Option<ModuleFile> {
        let plugin = self.plugin_of_direct_child()?;
        let name = self.file();
        let file = format!("{}.wasm", name.strip_suffix(".sock").unwrap_or(name));
        let metadata = self.directory().join(&file).symlink_metadata();
        metadata.is_ok().then(|| ModuleFile {
            plugin: plugin.to_owned(),
            file,
        })
    }
}

/// Whether a plugin's directory has a module, or cannot be read.
pub(super) fn has_any_module(plugins_dir: &Path, plugin: &str) -> bool {
    let is_module = |entry: io::Result<DirEntry>| {
        entry.map_or(true, |entry| {
            Path::new(&entry.file_name()).extension() == Some(OsStr::new("wasm"))
        })
    };
    match std::fs::read_dir(plugins_dir.join(plugin)) {
        Ok(mut entries) => entries.any(is_module),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// The module of a plugin. A call of it stands for `MutateDomain`: it calls PreStart, which may veto, and
/// OnDefineDomain.
pub(super) struct PluginModule {
    module: Box<dyn HookBody>,
    points: Vec<HookPoint>,
}

impl PluginModule {
    /// The error is that the module has no hook point that a plugin calls.
    pub(super) fn new(module: Box<dyn HookBody>, points: Vec<HookPoint>) -> Result<Self, String> {
        let plugin_points = HookPoint::PLUGIN_MODULE_POINTS;
        if plugin_points.iter().any(|point| points.contains(point)) {
            return Ok(Self { module, points });
        }
        Err(
            "the module has neither PreStart nor OnDefineDomain, and a plugin calls nothing else"
                .into(),
        )
    }

    /// The module's hook points that a plugin does not call.
    pub(super) fn uncalled_points(&self) -> impl Iterator<Item = HookPoint> {
        let points = self.points.iter().copied();
        points.filter(|point| !HookPoint::PLUGIN_MODULE_POINTS.contains(point))
    }

    async fn mutate_domain(&self, mut call: HookCall<'_>, xml: &str) -> HookReport {
        let (mut log, mut peak_memory) = (Vec::new(), 0);
        let (mut facts, mut waited) = (Vec::new(), Duration::ZERO);
        if self.points.contains(&HookPoint::PreStart) {
            let started = Instant::now();
            let pre_start = HookCall {
                input: HookInput::PreStart,
                determinism: call.determinism,
                ..call
            };
            let report = self.module.call_hook(pre_start).await;
            if report.result.is_err() {
                return report;
            }
            (log, peak_memory) = (report.log, report.peak_memory);
            (facts, waited) = (report.facts, report.waited);
            call.time_left = call.time_left.saturating_sub(started.elapsed());
        }
        let mut report = if self.points.contains(&HookPoint::OnDefineDomain) {
            self.module.call_hook(call).await
        } else {
            HookReport::result_only(Ok(HookOutput::DomainXml(xml.to_owned())))
        };
        log.append(&mut report.log);
        facts.append(&mut report.facts);
        HookReport {
            log,
            peak_memory: report.peak_memory.max(peak_memory),
            facts,
            waited: waited + report.waited,
            ..report
        }
    }
}

impl HookBody for PluginModule {
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport> {
        Box::pin(async move {
            match call.input {
                HookInput::Domain(xml) => self.mutate_domain(call, xml).await,
                // Plugins are called at no other hook point.
                _ => HookReport::result_only(Ok(HookOutput::Nothing)),
            }
        })
    }

    fn has_own_deadline(&self) -> bool {
        false
    }

    fn rewrites_document(&self) -> bool {
        self.module.rewrites_document()
    }
}
