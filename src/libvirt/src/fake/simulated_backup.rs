//! The course of a simulated backup: it lasts as long as configured, or until it is aborted, and leaves a checkpoint.
//!
//! ```text
//!   [idle] ── begin_backup ──▶ [running] ── time over (push), abort, failure, QEMU's end ──▶ [idle], JobCompleted
//! ```

use std::ffi::CStr;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use domain_xml::Document;
use virt_sys as sys;

use super::connection_handle::FakeConnection;
use super::errors::{qemu_error, xml_error};
use super::running_jobs::RunningBackup;
use super::simulated_domain::{Events, SimulatedDomain};
use crate::domain_jobs::{CompletedJob, JobStats, JobType};
use crate::error::{Error, Result, code, origin};
use crate::event::Event;
use crate::typed_params::ParamValue;

/// libvirt's message for a backup that was aborted.
pub(super) const CANCELLED: &str = "Operation canceled";

pub(super) fn begin(
    connection: &FakeConnection,
    name: &str,
    backup_xml: &str,
    checkpoint_xml: &str,
) -> Result<()> {
    let daemon = &connection.daemon;
    let (backup, checkpoint) = (parse(backup_xml)?, parse(checkpoint_xml)?);
    let duration = daemon.controls(|controls| controls.backup_duration);
    let number = daemon.next_number();
    let is_push = backup.root().attr("mode").as_deref() == Some("push");
    let duration = is_push.then_some(duration);
    daemon.change(name, |domain| {
        domain.must_run()?;
        domain.must_be_idle()?;
        domain.must_run_no_backup()?;
        domain.must_know_parent_checkpoint(&backup)?;
        create_files(&backup)?;
        domain.checkpoints.push(checkpoint_name(&checkpoint)?);
        domain.backup = Some(RunningBackup {
            number,
            started: Instant::now(),
            duration,
        });
        Ok(Vec::new())
    })?;
    let Some(duration) = duration else {
        return Ok(());
    };
    let (daemon, name) = (Arc::clone(daemon), name.to_owned());
    thread::spawn(move || {
        thread::sleep(duration);
        daemon.change_if_active(&name, |domain| {
            let is_same = |backup: &RunningBackup| backup.number == number;
            match domain.backup.as_ref().is_some_and(is_same) {
                true => domain.end_backup(JobType::Completed, None),
                false => Vec::new(),
            }
        });
    });
    Ok(())
}

impl SimulatedDomain {
    /// Ends the running backup, if there is one. Returns the event.
    pub(super) fn end_backup(&mut self, job_type: JobType, error: Option<&str>) -> Events {
        let Some(backup) = self.backup.take() else {
            return Vec::new();
        };
        self.completed_job = CompletedJob {
            stats: JobStats {
                job_type,
                ..backup.stats()
            },
            error: error.map(str::to_owned),
        };
        let operation = ParamValue::Signed(sys::VIR_DOMAIN_JOB_OPERATION_BACKUP.into());
        let succeeded = ParamValue::Bool(job_type == JobType::Completed);
        vec![Event::JobCompleted {
            domain: self.name.clone(),
            params: vec![
                (param_name(sys::VIR_DOMAIN_JOB_OPERATION), operation),
                (param_name(sys::VIR_DOMAIN_JOB_SUCCESS), succeeded),
            ],
        }]
    }

    fn must_run_no_backup(&self) -> Result<()> {
        if self.backup.is_none() {
            return Ok(());
        }
        Err(qemu_error(
            code::OPERATION_TIMEOUT,
            "Timed out during operation: cannot acquire state change lock (held by \
                      monitor=remoteDispatchDomainBackupBegin)",
        ))
    }

    fn must_know_parent_checkpoint(&self, backup: &Document) -> Result<()> {
        let Some(incremental) = backup.root().child("incremental") else {
            return Ok(());
        };
        let parent = incremental.text().trim().to_owned();
        if self.checkpoints.contains(&parent) {
            return Ok(());
        }
        let disks = backup.root().child("disks");
        let mut disks = disks.into_iter().flat_map(|disks| disks.children());
        let disk = disks.find(|disk| disk.attr("backup").as_deref() == Some("yes"));
        let disk = disk.and_then(|disk| disk.attr("name").map(|name| name.to_string()));
        Err(qemu_error(
            code::NO_DOMAIN_CHECKPOINT,
            format!(
                "Domain checkpoint not found: Checkpoint '{parent}' for incremental backup of disk \
                 '{}' not found",
                disk.unwrap_or_default()
            ),
        ))
    }
}

pub(super) fn redefine_checkpoint(domain: &mut SimulatedDomain, xml: &str) -> Result<()> {
    domain.must_run()?;
    let checkpoint = parse(xml)?;
    let name = checkpoint_name(&checkpoint)?;
    if checkpoint.root().child("creationTime").is_none() {
        return Err(Error {
            code: code::INTERNAL_ERROR,
            domain: origin::DOMAIN_CHECKPOINT,
            message: "internal error: missing creationTime from existing checkpoint".into(),
        });
    }
    if !domain
        .bitmaps
        .values()
        .any(|bitmaps| bitmaps.contains(&name))
    {
        return Err(qemu_error(
            code::CHECKPOINT_INCONSISTENT,
            format!("checkpoint inconsistent: missing or broken bitmap '{name}'"),
        ));
    }
    if !domain.checkpoints.contains(&name) {
        domain.checkpoints.push(name);
    }
    Ok(())
}

fn param_name(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn parse(xml: &str) -> Result<Document> {
    Document::parse(xml).map_err(|error| xml_error(&error.to_string()))
}

fn checkpoint_name(checkpoint: &Document) -> Result<String> {
    let name = checkpoint.root().child("name");
    let name = name.map(|name| name.text().trim().to_owned());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| xml_error("missing checkpoint name"))
}

/// Creates the files of a backup: those that it is written to, or those that keep data which the guest overwrites.
fn create_files(backup: &Document) -> Result<()> {
    let disks = backup.root().child("disks");
    let disks = disks.into_iter().flat_map(|disks| disks.children());
    let files = disks
        .filter_map(|disk| disk.child("target").or_else(|| disk.child("scratch")))
        .filter_map(|element| element.attr("file").map(|file| file.to_string()));
    for file in files {
        fs::write(&file, b"QFI\xfb").map_err(|error| {
            qemu_error(
                code::SYSTEM_ERROR,
                format!("Failed to create file '{file}': {error}"),
            )
        })?;
    }
    Ok(())
}
