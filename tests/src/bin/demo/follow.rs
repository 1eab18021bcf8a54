//! Puts onto the timeline what the launcher logs, what virt-handler is told and what the guest prints, as it comes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tests::console::Console;
use tests::virt_handler::Event;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::hook_run::HookRun;
use crate::timeline::Timeline;

/// What is followed, and how much of each was told.
pub(crate) struct Follow {
    pub(crate) timeline: Timeline,
    pub(crate) log: PathBuf,
    pub(crate) events: watch::Receiver<Vec<Event>>,
    pub(crate) console: Console,
    pub(crate) told: [usize; 3],
}

impl Follow {
    /// Follows until the handle is aborted.
    pub(crate) fn start(mut self) -> JoinHandle<()> {
        tokio::spawn(async move {
            loop {
                self.step();
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        })
    }

    fn step(&mut self) {
        for entry in entries(&self.log).iter().skip(self.told[0]) {
            self.told[0] += 1;
            tell_entry(&self.timeline, entry);
        }
        let events = self.events.borrow().clone();
        for event in &events[self.told[1]..] {
            self.timeline.say("virt-handler", &format!("told: {event}"));
        }
        self.told[1] = events.len();
        let facts = self.console.facts();
        // A reset starts the guest's log anew only when virtlogd rotates it, which the demo does not reach.
        for fact in facts.iter().skip(self.told[2]) {
            self.timeline.say("guest", fact.trim_end());
        }
        self.told[2] = facts.len().max(self.told[2]);
        self.timeline.progress("waiting");
    }
}

/// The whole JSON lines of a log.
pub(crate) fn entries(log: &PathBuf) -> Vec<Value> {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
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
            timeline.say("launcher", &format!("{message}{}", rest(entry)))
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
    own.map(|(key, value)| {
        format!(
            " {key}={}",
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        )
    })
    .collect()
}
