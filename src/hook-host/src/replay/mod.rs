//! Replays a recorded run.

mod difference_from_record;
mod replayed_module;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::hook::{Hook, HookInfo, HookKind};
use crate::invoke::rerun;
use crate::pod_facts::PodFactSource;
use crate::record::{Output, Record, RecordReadError};
use crate::wasm::{LoadError, LoadOptions, Loader};
use crate::{HookPoint, Run};
pub use difference_from_record::Difference;
use difference_from_record::difference;
use replayed_module::ReplayedModule;

/// Why a record cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The record cannot be read, or a part of it is invalid.
    #[error(transparent)]
    Record(#[from] RecordReadError),
    /// The recorded hook is a sidecar, and `port` is not set.
    #[error("it is the run of a gRPC sidecar: give the module that is to do the same")]
    Sidecar,
    /// The module's digest is not the recorded one.
    #[error("{path} has the sha256 {found}, the recorded module had {recorded}")]
    OtherModule {
        /// The file of the module.
        path: PathBuf,
        /// The module's digest.
        found: String,
        /// The recorded digest.
        recorded: String,
    },
    /// The hook's input was left out of the record.
    #[error("{0} was withheld from the record: record with secrets to replay it")]
    Withheld(String),
    /// The module cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A replay and its comparison with the record.
#[derive(Debug, Clone)]
pub struct ReplayResult {
    /// The replay.
    pub run: Run,
    /// The output of the replay.
    pub output: Option<Output>,
    /// The difference between the record and the replay.
    pub difference: Difference,
    /// The values that were withheld from the record. The hook reads placeholders instead.
    pub withheld: Vec<String>,
}

/// Replays a recorded run with the recorded input, limits, grants, random numbers and time of day. `module`
/// is the recorded module, whose digest must match; or, with `port`, another module that should have the
/// same effect.
pub async fn replay(
    record: &Record,
    module: &Path,
    port: bool,
    options: LoadOptions,
) -> Result<ReplayResult, ReplayError> {
    if let Some(value) = withheld_input(record) {
        return Err(ReplayError::Withheld(value));
    }
    let hook = load_hook(record, module, port, &options).await?;
    let point = HookPoint::from_name(&record.hook_point).ok_or_else(|| {
        RecordReadError::NotARecord(format!(
            "the hook point {:?} is not known",
            record.hook_point
        ))
    })?;
    let invocation = record.invocation.to_invocation();
    let (run, payload) = rerun(&hook, point, &invocation, &record.input)
        .await
        .map_err(RecordReadError::NotARecord)?;
    let output = payload.map(Output::from);
    Ok(ReplayResult {
        difference: difference(record, &run, output.as_ref()),
        run,
        output,
        withheld: record.withheld.clone(),
    })
}

/// A withheld value without which a replay makes no sense, if any.
fn withheld_input(record: &Record) -> Option<String> {
    let mut withheld = record.withheld.iter();
    withheld.find(|what| what.starts_with("input: ")).cloned()
}

/// The given module with the recorded settings.
async fn load_hook(
    record: &Record,
    path: &Path,
    port: bool,
    options: &LoadOptions,
) -> Result<Hook, ReplayError> {
    let name = &record.hook.directory;
    if record.hook.digest.is_none() && !port {
        return Err(ReplayError::Sidecar);
    }
    let module = Loader::new(options.clone()).load(path, name).await?;
    if let Some(recorded) = &record.hook.digest
        && !port
        && recorded != module.digest()
    {
        return Err(ReplayError::OtherModule {
            path: path.to_owned(),
            found: module.digest().to_owned(),
            recorded: recorded.clone(),
        });
    }
    let settings = record.settings(&options.limits)?;
    let info = HookInfo {
        hook: record.hook.hook.clone(),
        name: module.description().name.clone(),
        version: module.description().version.clone(),
        directory: name.clone(),
        file: record.hook.file.clone(),
        kind: HookKind::Wasm {
            digest: module.digest().to_owned(),
        },
        hook_points: module.description().hook_points.clone(),
        uncalled_points: record.hook.uncalled_points.clone(),
        is_final: record.hook.final_rule.is_some(),
        compile_time: None,
        ready_after: Duration::ZERO,
    };
    Ok(Hook {
        info,
        settings,
        body: Box::new(ReplayedModule {
            module,
            determinism: record.determinism(),
            pod: PodFactSource::Recorded(Arc::new(record.input.pod.clone())),
        }),
    })
}
