//! `virt-hook replay`: replays a recorded run and compares the results.

mod replay_report;

use std::path::{Path, PathBuf};

use anyhow::{Context, Error, anyhow};
use clap::Args;
use hook_host::record::{Record, RecordReadError};
use hook_host::replay::{ReplayError, ReplayResult, replay};
use serde::Serialize;

use crate::granted_dirs::{GrantedDirs, not_granted};
use crate::output::{ChangeReport, Report, RunReport, Style};
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::{cached_compilation, interactive_compile};

pub(crate) const HELP: &str = "\
A record is a file that the launcher, or `virt-hook serve`, writes with --hook-record DIR for each run. The
hook gets the recorded input, configuration, limits, grants, random numbers and time of day, and nothing
else. A directory that it could read needs --grant-dir again. The failurePolicy of hook.yaml has no effect.

Examples:
  virt-hook replay records/1700000000-0000-OnDefineDomain-smbios.json --module smbios.wasm
  virt-hook replay RECORD --hook smbios-2.wasm
  virt-hook replay RECORD_OF_A_SIDECAR --hook its-port.wasm

Exit codes:
  0  the result is the same: the outcome with its reason, the domain, and the cloud-init documents;
     differences in the notation of the XML and in the log are only shown
  1  the result differs; standard output shows the differences
  2  invalid command line, or an unusable record or module
  3  error of this machine";

/// Arguments of `virt-hook replay`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The record, a JSON file
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// The recorded module; its sha256 must match the record
    #[arg(long, value_name = "WASM", conflicts_with = "hook")]
    module: Option<PathBuf>,
    /// Another module, to compare with the record: a new version, or the port of a gRPC sidecar
    #[arg(long, value_name = "NEW_WASM")]
    hook: Option<PathBuf>,
    #[command(flatten)]
    dirs: GrantedDirs,
}

/// A record and its replay.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplayComparison {
    /// The recorded run.
    recorded: RunReport,
    /// The outcome of the replay: `ok`, or the kind of the failure.
    replayed: String,
    /// `identical`, `same` in effect, or `different`.
    verdict: &'static str,
    /// The recorded and the replayed outcome, if they differ.
    outcome: Option<(String, String)>,
    /// The differences of the domain.
    domain: Vec<ChangeReport>,
    /// The cloud-init documents that differ.
    documents: Vec<String>,
    /// Whether the log differs, which does not count.
    log: bool,
    /// Circumstances that may explain a difference, or its absence.
    notes: Vec<String>,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    record_and_replay: (Record, ReplayResult),
}

/// Runs the recorded run again.
pub(crate) fn run(arguments: &Arguments) -> Result<ReplayComparison, Failure> {
    let mut record = Record::read(&arguments.record)
        .map_err(|error| Failure::Usage(with_record_path(&arguments.record, error)))?;
    restrict_dirs(&mut record, arguments)?;
    let (module, port) = module(arguments, &record)?;
    let replayed = replay_record(&record, module, port)?;
    Ok(ReplayComparison::new(
        arguments.record.clone(),
        record,
        replayed,
    ))
}

impl ReplayComparison {
    fn new(path: PathBuf, record: Record, replayed: ReplayResult) -> Self {
        let difference = &replayed.difference;
        let verdict = match (difference.is_none(), difference.is_none_in_effect()) {
            (true, _) => "identical",
            (_, true) => "same",
            _ => "different",
        };
        Self {
            recorded: RunReport::from(&record),
            replayed: replay_report::outcome(&replayed).to_owned(),
            verdict,
            outcome: difference.outcome.clone(),
            domain: difference.domain.iter().map(ChangeReport::from).collect(),
            documents: difference.documents.clone(),
            log: difference.log,
            notes: replay_report::notes(&record, &replayed),
            path,
            record_and_replay: (record, replayed),
        }
    }
}

impl Report for ReplayComparison {
    fn text(&self, style: Style) -> String {
        let (record, replayed) = &self.record_and_replay;
        replay_report::render(style, record, replayed)
    }

    fn complaint(&self) -> Option<String> {
        let is_different = self.verdict == "different";
        is_different.then(|| format!("{}: the replay differs", self.path.display()))
    }
}

/// Refuses recorded directories that the command line does not grant, and lets no link lead out of what it grants: a record
/// can come from anywhere.
fn restrict_dirs(record: &mut Record, arguments: &Arguments) -> Result<(), Failure> {
    let mut dirs = record.dirs.iter();
    if let Some(dir) = dirs.find(|dir| !arguments.dirs.covers(dir)) {
        let record = arguments.record.display().to_string();
        return Err(Failure::Usage(not_granted(&record, dir)));
    }
    // A record of an earlier version, which has none, is refused.
    if !record.dir_roots.is_empty() {
        let roots = arguments
            .dirs
            .roots(record.dirs.iter().map(PathBuf::as_path));
        record.dir_roots = roots.into_iter().map(PathBuf::from).collect();
    }
    Ok(())
}

/// The module to run, and whether it may differ from the recorded one.
fn module<'a>(arguments: &'a Arguments, record: &Record) -> Result<(&'a Path, bool), Failure> {
    match (&arguments.module, &arguments.hook) {
        (_, Some(hook)) => Ok((hook, true)),
        (Some(module), None) => Ok((module, false)),
        (None, None) => Err(Failure::Usage(anyhow!(
            "{}: {}",
            arguments.record.display(),
            module_hint(record)
        ))),
    }
}

fn module_hint(record: &Record) -> String {
    match &record.hook.digest {
        Some(digest) => format!(
            "a record holds no module: give the recorded one ({} with the sha256 {digest}) with \
             --module, or another with --hook",
            record.hook.file
        ),
        None => "a gRPC sidecar ran: give its port with --hook".to_owned(),
    }
}

fn replay_record(record: &Record, module: &Path, port: bool) -> Result<ReplayResult, Failure> {
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let compiled = temp_dir.path().join("compiled");
    let loaded = cached_compilation::load(module, &compiled)?;
    loaded.map_err(interactive_compile::unusable)?;
    let options = interactive_compile::options(Some(compiled))?;
    let replayed = runtime()?.block_on(replay(record, module, port, options));
    replayed.map_err(|error| Failure::Usage(with_remedy(error)))
}

/// Adds the file of the record to an error.
fn with_record_path(path: &Path, error: RecordReadError) -> Error {
    match error {
        RecordReadError::Io { .. } => error.into(),
        RecordReadError::NotARecord(_) => Error::new(error).context(path.display().to_string()),
    }
}

/// Adds the helpful command-line option to an error; the library does not know the options.
fn with_remedy(error: ReplayError) -> Error {
    match error {
        ReplayError::OtherModule { .. } => anyhow!("{error}; compare another one with --hook"),
        ReplayError::Sidecar => anyhow!("{error} with --hook"),
        _ => error.into(),
    }
}
