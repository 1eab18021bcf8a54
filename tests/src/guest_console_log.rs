//! Reads the output of the guest's serial console, which virtlogd writes to a log in the pod.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::guest_image::REPORT_PREFIX;

/// The log of one guest's serial console.
#[derive(Clone, Debug)]
pub struct ConsoleLog {
    /// The log file, as this process sees it.
    pub path: PathBuf,
}

impl ConsoleLog {
    /// Everything printed so far. Empty before the guest starts.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).replace('\r', "")
    }

    /// The guest's reports in order: the complete lines with [`REPORT_PREFIX`], without the prefix.
    pub fn reports(&self) -> Vec<String> {
        let text = self.text();
        let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
        complete_lines
            .lines()
            .filter_map(|line| Some(line.split_once(REPORT_PREFIX)?.1.to_owned()))
            .collect()
    }

    /// How many times the guest has booted.
    pub fn boots(&self) -> usize {
        self.reports()
            .iter()
            .filter(|report| *report == "READY")
            .count()
    }

    /// Waits until the guest has booted `boots` times, and returns its reports.
    pub async fn wait_for_boots(&self, boots: usize, deadline: Duration) -> Result<Vec<String>> {
        let booted = crate::wait_until("the guest's READY line", deadline, async || {
            (self.boots() >= boots).then_some(())
        });
        match booted.await {
            Ok(()) => Ok(self.reports()),
            Err(error) => bail!(
                "{error} number {boots}; its console {}:\n{}",
                self.path.display(),
                self.text()
            ),
        }
    }

    /// Whether one of the guest's reports is exactly this line.
    pub fn has_reported(&self, report: &str) -> bool {
        self.reports().iter().any(|line| line.trim_end() == report)
    }
}
