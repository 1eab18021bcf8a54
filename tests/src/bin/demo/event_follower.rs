//! Follows the launcher's log, virt-handler's notifications and the guest's console, and prints them on the timeline.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tests::console_log::ConsoleLog;
use tests::guest_image::REPORT_PREFIX;
use tests::pod::Pod;
use tests::virt_handler::{Event, Step, StepEntry, VirtHandler};
use tests::vmi_builder::Vmi;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::logged_hook_run::HookRun;
use crate::timeline::Timeline;

/// The followed sources, and how far each was printed.
pub(crate) struct EventFollower {
    timeline: Timeline,
    /// What distinguishes the pod from others on the timeline, before each name.
    side: &'static str,
    log: Tail,
    console: Tail,
    events: watch::Receiver<Vec<Event>>,
    event_count: usize,
    steps: watch::Receiver<Vec<StepEntry>>,
    told_steps: usize,
}

/// The task that follows a pod.
pub(crate) struct Following(JoinHandle<()>);

impl Following {
    /// Prints the last lines, which come with a delay, and ends.
    pub(crate) async fn finish(self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.0.abort();
    }
}

impl EventFollower {
    /// Follows one pod.
    pub(crate) fn start(
        timeline: &Timeline,
        pod: &Pod,
        handler: &VirtHandler,
        vmi: &Vmi,
    ) -> Following {
        EventFollower::start_side(timeline, "", pod, handler, vmi)
    }

    /// Follows one of several pods; `side` stands before each name on the timeline.
    pub(crate) fn start_side(
        timeline: &Timeline,
        side: &'static str,
        pod: &Pod,
        handler: &VirtHandler,
        vmi: &Vmi,
    ) -> Following {
        let ConsoleLog { path: console } = pod.console(vmi);
        let mut follow = EventFollower {
            timeline: timeline.clone(),
            side,
            log: Tail::of(pod.log_path()),
            console: Tail::of(console),
            events: handler.feed(),
            event_count: 0,
            steps: handler.step_feed(),
            told_steps: 0,
        };
        let task = tokio::spawn(async move {
            loop {
                follow.step();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        Following(task)
    }

    fn step(&mut self) {
        for entry in self
            .log
            .lines()
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
        {
            self.print_entry(&entry);
        }
        let events: Vec<String> = self.events.borrow()[self.event_count..]
            .iter()
            .map(ToString::to_string)
            .collect();
        self.event_count += events.len();
        for event in events {
            self.say("virt-handler", &format!("is notified: {event}"));
        }
        let steps = self.steps.borrow().clone();
        for entry in &steps[self.told_steps..] {
            if is_seen_outside(&entry.step) {
                let step = entry.step.to_string();
                self.say("virt-handler", &step);
            }
        }
        self.told_steps = steps.len();
        for line in self.console.lines() {
            if let Some((_, report)) = line.split_once(REPORT_PREFIX) {
                self.say("guest", report.trim_end());
            }
        }
        self.timeline.progress("waiting");
    }

    fn say(&self, who: &str, text: &str) {
        match self.side {
            "" => self.timeline.say(who, text),
            side => self.timeline.say(&format!("{side} {who}"), text),
        }
    }

    /// Prints runs of hooks in full, other lines about hooks, migrations and errors in short, and skips the rest.
    fn print_entry(&self, entry: &Value) {
        if let Some(run) = HookRun::read(entry) {
            return self.say("hook", &run.describe());
        }
        // Most of libvirt's messages are irrelevant here.
        if entry["subcomponent"].is_string() {
            return;
        }
        let message = entry["msg"].as_str().unwrap_or_default();
        match entry["level"].as_str() {
            Some("error") => self.say("launcher", &format!("error: {message}{}", rest(entry))),
            Some("info") if message.starts_with("hook is ready") || message.contains("migrat") => {
                self.say("launcher", &format!("{message}{}", rest(entry)));
            }
            _ => {}
        }
    }
}

/// Calls, phases and violations, but not every decision.
fn is_seen_outside(step: &Step) -> bool {
    matches!(step, Step::Called { .. } | Step::Phase(_)) || step.violation().is_some()
}

/// Reads the new lines of a growing file.
struct Tail {
    path: PathBuf,
    read: u64,
    /// The part of a line whose end was not written yet.
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

    /// The new complete lines.
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

/// All runs of hooks in a log.
pub(crate) fn runs(log: &Path) -> Vec<HookRun> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines()
        .filter_map(|line| HookRun::read(&serde_json::from_str(line).ok()?))
        .collect()
}

/// The fields that not every line has.
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
