//! Follows the launcher's log, virt-handler's notifications and the guest's console, and prints them on the timeline.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tests::emulated_virt_handler::{Event, Step, StepEntry, VirtHandler};
use tests::guest_console_log::ConsoleLog;
use tests::guest_image::REPORT_PREFIX;
use tests::pod::Pod;
use tests::vmi_builder::Vmi;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::hook_runs_in_log::HookRun;
use crate::timeline::Timeline;

/// The followed sources, and how much of each is already printed.
pub(crate) struct TimelineFollower {
    timeline: Timeline,
    /// The prefix of each source on the timeline that tells which of several pods it is in.
    side: &'static str,
    log: Tail,
    console: Tail,
    events: watch::Receiver<Vec<Event>>,
    event_count: usize,
    steps: watch::Receiver<Vec<StepEntry>>,
    step_count: usize,
}

/// The task that follows a pod.
pub(crate) struct FollowerTask(JoinHandle<()>);

impl FollowerTask {
    /// Waits for the last lines, which arrive with a delay, and stops.
    pub(crate) async fn finish(self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        self.0.abort();
    }
}

impl TimelineFollower {
    /// Follows one pod.
    pub(crate) fn start(
        timeline: &Timeline,
        pod: &Pod,
        handler: &VirtHandler,
        vmi: &Vmi,
    ) -> FollowerTask {
        TimelineFollower::start_side(timeline, "", pod, handler, vmi)
    }

    /// Follows one of several pods; `side` is the prefix of each source on the timeline.
    pub(crate) fn start_side(
        timeline: &Timeline,
        side: &'static str,
        pod: &Pod,
        handler: &VirtHandler,
        vmi: &Vmi,
    ) -> FollowerTask {
        let ConsoleLog { path: console } = pod.console(vmi);
        let mut follow = TimelineFollower {
            timeline: timeline.clone(),
            side,
            log: Tail::new(pod.log_path()),
            console: Tail::new(console),
            events: handler.event_channel(),
            event_count: 0,
            steps: handler.step_channel(),
            step_count: 0,
        };
        let task = tokio::spawn(async move {
            loop {
                follow.step();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        FollowerTask(task)
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
            self.print("virt-handler", &format!("is notified: {event}"));
        }
        let steps = self.steps.borrow().clone();
        for entry in &steps[self.step_count..] {
            if is_externally_visible(&entry.step) {
                let step = entry.step.to_string();
                self.print("virt-handler", &step);
            }
        }
        self.step_count = steps.len();
        for line in self.console.lines() {
            if let Some((_, report)) = line.split_once(REPORT_PREFIX) {
                self.print("guest", report.trim_end());
            }
        }
        self.timeline.progress("waiting");
    }

    fn print(&self, source: &str, text: &str) {
        match self.side {
            "" => self.timeline.print(source, text),
            side => self.timeline.print(&format!("{side} {source}"), text),
        }
    }

    /// Prints runs of hooks in full, other lines about hooks, migrations and errors in short, and skips the rest.
    fn print_entry(&self, entry: &Value) {
        if let Some(run) = HookRun::read(entry) {
            return self.print("hook", &run.describe());
        }
        // Most of libvirt's messages are irrelevant here.
        if entry["subcomponent"].is_string() {
            return;
        }
        let message = entry["msg"].as_str().unwrap_or_default();
        match entry["level"].as_str() {
            Some("error") => self.print(
                "launcher",
                &format!("error: {message}{}", uncommon_fields(entry)),
            ),
            Some("info") if message.starts_with("hook is ready") || message.contains("migrat") => {
                self.print("launcher", &format!("{message}{}", uncommon_fields(entry)));
            }
            _ => {}
        }
    }
}

/// Whether the step is a call, a phase or a violation; decisions are not printed.
fn is_externally_visible(step: &Step) -> bool {
    matches!(step, Step::Called { .. } | Step::Phase(_)) || step.violation().is_some()
}

/// Reads the new lines of a growing file.
struct Tail {
    path: PathBuf,
    /// The number of bytes that were read.
    position: u64,
    /// The beginning of a line whose end is not written yet.
    incomplete_line: String,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail {
            path,
            position: 0,
            incomplete_line: String::new(),
        }
    }

    /// The new complete lines.
    fn lines(&mut self) -> Vec<String> {
        let mut bytes = Vec::new();
        let byte_count = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.position))?;
            file.read_to_end(&mut bytes)
        });
        self.position += u64::try_from(byte_count.unwrap_or_default()).unwrap_or_default();
        self.incomplete_line
            .push_str(&String::from_utf8_lossy(&bytes));
        let Some(end) = self.incomplete_line.rfind('\n') else {
            return Vec::new();
        };
        let rest = self.incomplete_line.split_off(end + 1);
        let complete = std::mem::replace(&mut self.incomplete_line, rest);
        complete.lines().map(str::to_owned).collect()
    }
}

/// The fields of a log line that not every line has, as text.
fn uncommon_fields(entry: &Value) -> String {
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
    let uncommon = fields
        .iter()
        .filter(|(key, _)| !COMMON.contains(&key.as_str()));
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    uncommon
        .map(|(key, value)| format!(" {key}={}", text(value)))
        .collect()
}
