//! A recorded run again, at a desk.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use domain_xml::{Change, Document, diff};

use super::file::{self, VERSION};
use super::{Output, Record, Run, Said};
use crate::chain::{Body, Hook, again};
use crate::wasm::{LoadError, Loader, Options};
use crate::{HookInfo, HookKind};

/// Twice the largest input and output, and the rest.
const MAX_BYTES: u64 = 256 << 20;

/// A record that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no record, or of another version.
    #[error("no record of a hook's run: {0}")]
    NoRecord(String),
    /// A sidecar ran, and there is no module to run instead.
    #[error("it is the run of a gRPC sidecar: give the module that is to do the same")]
    Sidecar,
    /// The module is another one than the recorded one, and was not asked for as such.
    #[error("{path} has the sha256 {found}, the recorded module had {recorded}")]
    OtherModule {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What the recorded module had.
        recorded: String,
    },
    /// The hook's input was kept out of the record.
    #[error("{0} was withheld from the record: record with secrets to replay it")]
    Withheld(String),
    /// The module cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A run beside its replay.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The replay.
    pub run: Run,
    /// What the hook gave back this time.
    pub output: Option<Output>,
    /// How it differs from the record.
    pub difference: Difference,
    /// What of the recorded input was withheld; the hook saw a placeholder instead.
    pub withheld: Vec<String>,
}

/// How two runs differ. How long they took does not count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// How they ended, recorded and replayed, with the reason, if not alike.
    pub outcome: Option<(String, String)>,
    /// From the recorded domain to the replayed one.
    pub domain: Vec<Change>,
    /// The domains' texts are not the same, byte for byte. They may still say the same.
    pub bytes: bool,
    /// Documents of cloud-init that are not the same.
    pub documents: Vec<String>,
    /// What they logged is not the same.
    pub log: bool,
}

impl Difference {
    /// Whether the two runs did the same, byte for byte.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they came to the same: what they logged and how they wrote it does not count.
    #[must_use]
    pub fn is_none_in_effect(&self) -> bool {
        self.outcome.is_none() && self.domain.is_empty() && self.documents.is_empty()
    }
}

impl Record {
    /// Reads a record file.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let read = |source| ReplayError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(read)?;
        file.take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(read)?;
        Self::parse(&text)
    }

    /// Reads the text of a record file.
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        let record: Self =
            serde_json::from_str(text).map_err(|error| ReplayError::NoRecord(error.to_string()))?;
        if record.version == VERSION {
            Ok(record)
        } else {
            let reason = format!("version {} is not {VERSION}", record.version);
            Err(ReplayError::NoRecord(reason))
        }
    }
}

/// Runs a recorded run again, with the input, limits, grants, random numbers and time of day that
/// it had. `module` is the recorded module, whose digest must be the same; or, when `port` says so,
/// another that is to do the same.
pub async fn replay(
    record: &Record,
    module: &Path,
    port: bool,
    options: Options,
) -> Result<Replayed, ReplayError> {
    if let Some(document) = withheld_documents(record) {
        return Err(ReplayError::Withheld(document));
    }
    let hook = hook(record, module, port, &options).await?;
    let point = file::point(&record.hook_point).ok_or_else(|| {
        ReplayError::NoRecord(format!(
            "the hook point {:?} is not known",
            record.hook_point
        ))
    })?;
    let invocation = record.invocation.to_invocation();
    let (run, given) = again(&hook, point, &invocation, &record.input, record.fixed())
        .await
        .map_err(ReplayError::NoRecord)?;
    let output = given.map(Output::from);
    Ok(Replayed {
        difference: difference(record, &run, output.as_ref()),
        run,
        output,
        withheld: record.withheld.clone(),
    })
}

fn withheld_documents(record: &Record) -> Option<String> {
    let mut withheld = record.withheld.iter();
    withheld.find(|what| what.starts_with("input: ")).cloned()
}

async fn hook(
    record: &Record,
    path: &Path,
    port: bool,
    options: &Options,
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
    let settings = record
        .settings(&options.limits)
        .map_err(ReplayError::NoRecord)?;
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
        ready_after: std::time::Duration::ZERO,
    };
    Ok(Hook {
        info,
        settings,
        body: Body::Wasm(module),
    })
}

fn difference(record: &Record, run: &Run, output: Option<&Output>) -> Difference {
    let told = |outcome: &str, reason: Option<&str>| match reason {
        Some(reason) => format!("{outcome}: {reason}"),
        None => outcome.to_owned(),
    };
    let reason = match &run.outcome {
        super::Outcome::Ok => None,
        super::Outcome::Failed(error) => Some(error.to_string()),
    };
    let recorded = told(&record.outcome, record.reason.as_deref());
    let replayed = told(file::outcome(&run.outcome), reason.as_deref());
    let (none, before) = (Output::default(), record.output.as_ref());
    let (before, after) = (before.unwrap_or(&none), output.unwrap_or(&none));
    let log: Vec<Said> = run.log.iter().map(Said::of).collect();
    Difference {
        outcome: (recorded != replayed).then_some((recorded, replayed)),
        domain: domains(before.domain_xml.as_deref(), after.domain_xml.as_deref()),
        bytes: before.domain_xml != after.domain_xml,
        documents: documents(before.documents.as_deref(), after.documents.as_deref()),
        log: log != record.log,
    }
}

fn domains(before: Option<&str>, after: Option<&str>) -> Vec<Change> {
    let parse = |text: Option<&str>| Document::parse(text?).ok();
    match (parse(before), parse(after)) {
        (Some(before), Some(after)) => diff(&before, &after),
        // One of them is no XML: the outcomes differ, or neither is.
        _ => Vec::new(),
    }
}

fn documents(
    before: Option<&[(String, String)]>,
    after: Option<&[(String, String)]>,
) -> Vec<String> {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let text = |list: &[(String, String)], name: &str| {
        let found = list.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.clone())
    };
    let mut names: Vec<&String> = before.iter().chain(after).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&&String| text(before, name) != text(after, name);
    names
        .iter()
        .filter(differs)
        .map(|name| (**name).clone())
        .collect()
}
