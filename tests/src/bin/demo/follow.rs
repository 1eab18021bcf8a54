//! Puts onto the timeline what the launcher logs, what virt-handler is told and what the guest prints, as it comes.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tests::console::Console;
use tests::guest::PREFIX;
use tests::pod::Pod;
use tests::virt_handler::{Event, VirtHandler};
use tests::vmi::Vmi;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::hook_run::HookRun;
use crate::timeline::Timeline;

/// What is followed, and how much of it was told.
pub(crate) struct Follow {
    timeline: Timeline,
    log: Tail,
    console: Tail,
    events: watch::Receiver<Vec<Event>>,
    told: usize,
}

impl Follow {
    /// Follows one pod until the handle is aborted.
    pub(crate) fn start(
        timeline: &Timeline,
        pod: &Pod,
        handler: &VirtHandler,
        vmi: &Vmi,
    ) -> JoinHandle<()> {
        let Console { path: console } = pod.console(vmi);
        let mut follow = Follow {
            timeline: timeline.clone(),
            log: Tail::of(pod.log_path()),
            console: Tail::of(console),
            events: handler.feed(),
            told: 0,
        };
        tokio::spawn(async move {
            loop {
                follow.step();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    fn step(&mut self) {
        for entry in self
            .log
            .lines()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
        {
            tell_entry(&self.timeline, &entry);
        }
        let events: Vec<String> = self.events.borrow()[self.told..]
            .iter()
            .map(ToString::to_string)
            .collect();
        self.told += events.len();
        for event in events {
            self.timeline
                .say("virt-handler", &format!("is told: {event}"));
        }
        for line in self.console.lines() {
            if let Some((_, fact)) = line.split_once(PREFIX) {
                self.timeline.say("guest", fact.trim_end());
            }
        }
        self.timeline.progress("waiting");
    }
}

/// A file that grows, read once.
struct Tail {
    path: PathBuf,
    read: u64,
    /// The beginning of a line whose end is still to come.
    begun: String,
}

impl Tail {
    fn of(path: PathBuf) -> Tail {
        Tail {
            path,
            read: 0,
            begun: String::new(),
        }
    }

    /// The whole lines that are new.
    fn lines(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let grown = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut bytes)
        });
        self.read += u64::try_from(grown.unwrap_or_default()).unwrap_or_default();
        self.begun.push_str(&String::from_utf8_lossy(&bytes));
        let Some(end) = self.begun.rfind('\n') else {
            return Vec::new();
        };
        let rest = self.begun.split_off(end + 1);
        let whole = std::mem::replace(&mut self.begun, rest);
        whole.lines().map(str::to_owned).collect()
    }
}

/// All runs of hooks that a log tells of.
pub(crate) fn runs(log: &Path) -> Vec<HookRun> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter_map(|line| HookRun::read(&serde_json::from_str(line).ok()?))
        .collect()
}

/// Runs of hooks in full, other lines about hooks and what went wrong in short; the rest is not the demo's matter.
fn tell_entry(timeline: &Timeline, entry: &Value) {
    if let Some(run) = HookRun::read(entry) {
        return timeline.say("hook", &run.tell());
    }
    // libvirt says more than matters here.
    if entry["subcomponent"].is_string() {
        return;
    }
    let message = entry["msg"].as_str().unwrap_or_default();
    match entry["level"].as_str() {
        Some("error") => timeline.say("launcher", &format!("error: {message}{}", rest(entry))),
        Some("info") if message.starts_with("hook is ready") => {
            timeline.say("launcher", &format!("{message}{}", rest(entry)));
        }
        _ => {}
    }
}

/// The fields that one line has and every line has not.
fn rest(entry: &Value) -> String {
    const COMMON: [&str; 9] = [
        "component",
        "level",
        "msg",
        "pos",
        "timestamp",
        "kind",
        "name",
        "namespace",
        "uid",
    ];
    let Some(fields) = entry.as_object() else {
        return String::new();
    };
    let own = fields
        .iter()
        .filter(|(key, _)| !COMMON.contains(&key.as_str()));
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    own.map(|(key, value)| format!(" {key}={}", text(value)))
        .collect()
}
