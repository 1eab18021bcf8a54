//! Hooks as a pod would have them: laid out in a directory of our own, collected and chained by the
//! launcher's code, and every run written down.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use hook_host::record::Record;
use hook_host::{Chain, CloudInitDocuments, HookError, HookInfo, HookPoint};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::compiling;
use crate::failure::Failure;
use crate::inputs::Subject;
use crate::modules::{self, Found, Terms};
use crate::output::RunReport;

const RECORDS: &str = "records";

/// Hooks that are ready.
pub(crate) struct Hooks {
    runtime: Runtime,
    chain: Chain,
    place: TempDir,
}

/// What hooks made of a virtual machine.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    /// The domain after the last hook.
    pub(crate) xml: String,
    /// The cloud-init data after the last hook.
    pub(crate) cloud_init: Option<CloudInitDocuments>,
    /// Every run in order, the one that stopped the chain included.
    pub(crate) runs: Vec<RunReport>,
    /// Why the virtual machine would not start.
    pub(crate) error: Option<HookError>,
}

impl Hooks {
    /// Compiles and collects. The error is about the modules and what is said of them.
    pub(crate) fn collect(found: &[Found], terms: Terms) -> Result<Self, Failure> {
        let place = tempfile::tempdir()
            .context("making a temporary directory")
            .map_err(Failure::Machine)?;
        let terms = Terms {
            record: Some(place.path().join(RECORDS)),
            secrets: true,
            ..terms
        };
        let runtime = runtime()?;
        let chain = runtime.block_on(modules::collect(found, place.path(), terms));
        let chain = chain.map_err(|error| match error.downcast() {
            Ok(error) => compiling::explain(error),
            Err(error) => error,
        });
        Ok(Self {
            chain: chain.map_err(Failure::Usage)?,
            runtime,
            place,
        })
    }

    /// What was collected.
    pub(crate) fn infos(&self) -> Vec<HookInfo> {
        self.chain.hooks()
    }

    /// Calls hook points one after the other; the first hook that refuses or fails ends it.
    pub(crate) fn run(&self, subject: &Subject, points: &[HookPoint]) -> Result<Story, Failure> {
        let mut story = Story {
            xml: subject.xml.clone(),
            cloud_init: None,
            runs: Vec::new(),
            error: None,
        };
        for point in points {
            let work = call(&self.chain, *point, subject, &mut story);
            if let Err(error) = self.runtime.block_on(work)? {
                story.error = Some(error);
                break;
            }
        }
        story.runs = self.take_records()?.iter().map(RunReport::from).collect();
        Ok(story)
    }

    /// The runs since the last time.
    fn take_records(&self) -> Result<Vec<Record>, Failure> {
        let taken = take(&self.place.path().join(RECORDS));
        taken.map_err(Failure::Machine)
    }
}

/// The outer error is about the virtual machine, the inner one a hook's.
async fn call(
    chain: &Chain,
    point: HookPoint,
    subject: &Subject,
    story: &mut Story,
) -> Result<Result<(), HookError>, Failure> {
    let (invocation, vmi) = (&subject.invocation, subject.vmi.as_str());
    let done = match point {
        HookPoint::PreStart => chain.pre_start(invocation, vmi).await.map(drop),
        HookPoint::PreCloudInitIso => {
            let data = subject.cloud_init.clone();
            let Some(data) = data.map_err(|error| Failure::refused(anyhow!(error)))? else {
                return Ok(Ok(()));
            };
            let hooked = chain.pre_cloud_init_iso(invocation, vmi, data).await;
            hooked.map(|(data, _)| story.cloud_init = Some(data))
        }
        HookPoint::OnDefineDomain => {
            let xml = subject.xml.clone();
            let hooked = chain.on_define_domain(invocation, vmi, xml).await;
            hooked.map(|(xml, _)| story.xml = xml)
        }
        HookPoint::Shutdown => {
            // Its errors are in the runs: they stop nothing.
            chain.shutdown(invocation).await;
            Ok(())
        }
    };
    Ok(done)
}

fn take(dir: &Path) -> anyhow::Result<Vec<Record>> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // Names begin with the time and a number.
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let record = Record::read(path)?;
        fs::remove_file(path).with_context(|| path.display().to_string())?;
        Ok(record)
    };
    paths.iter().map(read).collect()
}

/// One thread: nothing here runs beside something else.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")
        .map_err(Failure::Machine)
}
