//! `virt-hook replay`: a recorded run again, and what is different about it.

mod report;

use std::path::Path;

use anyhow::{Context, Error, anyhow};
use hook_host::Compiler;
use hook_host::record::{Record, ReplayError, Replayed, replay};
use hook_host::wasm::Options;

use crate::cli::Replay;
use crate::failure::Failure;
use crate::modules::HOST;
use crate::output;

/// Writes the comparison to standard output; a replay that comes to something else is a failure.
pub(crate) fn run(arguments: &Replay) -> Result<(), Failure> {
    let record = Record::read(&arguments.record)
        .map_err(|error| Failure::Usage(named(&arguments.record, error)))?;
    let (module, port) = module(arguments, &record)?;
    let replayed = again(&record, module, port)?;
    output::print(&report::of(&record, &replayed))?;
    if replayed.difference.is_none_in_effect() {
        return Ok(());
    }
    Err(Failure::Refused(anyhow!(
        "{}: the replay is different",
        arguments.record.display()
    )))
}

/// The module to run, and whether it may be another one than the recorded one.
fn module<'a>(arguments: &'a Replay, record: &Record) -> Result<(&'a Path, bool), Failure> {
    match (&arguments.module, &arguments.hook) {
        (_, Some(hook)) => Ok((hook, true)),
        (Some(module), None) => Ok((module, false)),
        (None, None) => Err(Failure::Usage(anyhow!(
            "{}: {}",
            arguments.record.display(),
            wanted(record)
        ))),
    }
}

fn wanted(record: &Record) -> String {
    match &record.hook.digest {
        Some(digest) => format!(
            "a record holds no module: give the recorded one ({} with the sha256 {digest}) with \
             --module, or another with --hook",
            record.hook.file
        ),
        None => "a gRPC sidecar ran: give the module that is to do the same with --hook".to_owned(),
    }
}

fn again(record: &Record, module: &Path, port: bool) -> Result<Replayed, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
        .map_err(Failure::Usage)?;
    let program = std::env::current_exe()
        .context("finding this program")
        .map_err(Failure::Usage)?;
    let options = Options {
        compiler: Compiler::Child { program },
        host_name: HOST.to_owned(),
        ..Options::default()
    };
    let replayed = runtime.block_on(replay(record, module, port, options));
    replayed.map_err(|error| Failure::Usage(way_out(error)))
}

/// An error about the record, with the file that it is in.
fn named(path: &Path, error: ReplayError) -> Error {
    match error {
        ReplayError::Read { .. } => error.into(),
        _ => Error::new(error).context(path.display().to_string()),
    }
}

/// The library does not know the options that would help.
fn way_out(error: ReplayError) -> Error {
    match error {
        ReplayError::OtherModule { .. } => anyhow!("{error}; compare another one with --hook"),
        ReplayError::Sidecar => anyhow!("{error} with --hook"),
        _ => error.into(),
    }
}
