//! What the guest printed on its serial console, from the log that virtlogd keeps in the pod.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::guest::PREFIX;

/// The log of one guest's serial console.
#[derive(Clone, Debug)]
pub struct Console {
    /// The log file, as this process sees it.
    pub path: PathBuf,
}

impl Console {
    /// All that was printed so far; empty before the guest starts.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.path).unwrap_or_default()).replace('\r', "")
    }

    /// What the guest told, without its prefix, in order, whole lines only.
    pub fn facts(&self) -> Vec<String> {
        let text = self.text();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .filter_map(|line| Some(line.split_once(PREFIX)?.1.to_owned()))
            .collect()
    }

    /// How many times the guest came up.
    pub fn boots(&self) -> usize {
        self.facts().iter().filter(|fact| *fact == "READY").count()
    }

    /// Waits until the guest has come up `boots` times.
    pub async fn ready(&self, boots: usize, deadline: Duration) -> Result<Vec<String>> {
        let reached = crate::until("the guest's READY line", deadline, async || {
            (self.boots() >= boots).then_some(())
        });
        match reached.await {
            Ok(()) => Ok(self.facts()),
            Err(error) => bail!(
                "{error} number {boots}; its console {}:\n{}",
                self.path.display(),
                self.text()
            ),
        }
    }

    /// Whether the guest told exactly this line.
    pub fn told(&self, fact: &str) -> bool {
        self.facts().iter().any(|line| line.trim_end() == fact)
    }
}
