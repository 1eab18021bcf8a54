//! Replays migrations that were recorded with KubeVirt's launcher (`migration-runs` in tests/corpus/README.md).

use std::collections::BTreeMap;
use std::path::Path;

use super::stalls::with_stall_detector;
use super::*;

/// A line of a recorded migration.
#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Transfer,
    Stats(JobStats),
    Cancel,
    /// `abort`, `suspend` or `post-copy`, at the time of the notification to virt-handler.
    Action(String),
    End,
}

#[derive(Debug)]
struct Run {
    options: MigrationOptions,
    entries: Vec<(u64, Entry)>,
}

fn runs() -> BTreeMap<String, Run> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/migration-runs");
    let files = std::fs::read_dir(directory).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let named = files.map(|file| {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, Run::parse(&std::fs::read_to_string(file).unwrap()))
    });
    named.collect()
}

impl Run {
    fn parse(text: &str) -> Run {
        let (options, lines) = text.split_once('\n').unwrap();
        let options = options.strip_prefix("options ").unwrap();
        Run {
            options: MigrationOptions::from_json(options.as_bytes()).unwrap(),
            entries: lines.lines().map(parse_entry).collect(),
        }
    }

    fn time_of(&self, expected: &Entry) -> Option<u64> {
        let mut entries = self.entries.iter();
        entries.find_map(|(millis, entry)| (entry == expected).then_some(*millis))
    }

    fn actions(&self) -> Vec<(u64, &str)> {
        let actions = self
            .entries
            .iter()
            .filter_map(|(millis, entry)| match entry {
                Entry::Action(word) => Some((*millis, word.as_str())),
                _ => None,
            });
        actions.collect()
    }

    /// libvirt's statistics at a moment. KubeVirt's launcher logs only every tenth sample: between two of them the
    /// remainder is interpolated, and after the last it is constant.
    fn stats(&self, millis: u64) -> Option<JobStats> {
        let begin = self
            .time_of(&Entry::Transfer)
            .filter(|begin| millis >= *begin)?;
        let recorded = self.entries.iter().filter_map(|(at, entry)| match entry {
            Entry::Stats(stats) => Some((*at, *stats)),
            _ => None,
        });
        let (earlier, later): (Vec<_>, Vec<_>) = recorded.partition(|(at, _)| *at <= millis);
        let (Some((next, stats)), last) = (later.first(), earlier.last()) else {
            return earlier.last().map(|(_, stats)| *stats);
        };
        let (since, before) = match last {
            Some((at, stats)) => (*at, stats.data_remaining?),
            None => (begin, stats.data_total?),
        };
        let sent = (before - stats.data_remaining?) * (millis - since) / (next - since);
        Some(JobStats {
            job_type: JobType::Unbounded,
            data_remaining: Some(before - sent),
            time_elapsed: Some(millis),
            ..*stats
        })
    }

    /// The actions of the monitor with these options, for a sample every 400 ms.
    fn replay(&self, options: &MigrationOptions, until: u64) -> Vec<(u64, Action)> {
        let mut job = TestJob::new(options, false);
        let mut cancelled = self.time_of(&Entry::Cancel);
        let mut iteration = None;
        for now in (0..=until).step_by(400) {
            if let Some(millis) = cancelled.take_if(|millis| *millis <= now) {
                let actions = job.monitor.observe(Input::Cancel);
                job.log
                    .extend(actions.into_iter().map(|action| (millis, action)));
            }
            let stats = self.stats(now);
            let before = iteration;
            iteration = stats.and_then(|stats| stats.memory_iteration).or(before);
            job.sample(Sample {
                elapsed: Duration::from_millis(now),
                stats,
                is_paused: false,
                begins_iteration: iteration != before,
            });
        }
        job.log
    }

    fn end(&self) -> u64 {
        self.time_of(&Entry::End).unwrap()
    }
}

fn parse_entry(line: &str) -> (u64, Entry) {
    let mut words = line.splitn(3, ' ');
    let millis = words.next().unwrap().parse().unwrap();
    let entry = match (words.next().unwrap(), words.next()) {
        ("transfer", None) => Entry::Transfer,
        ("cancel", None) => Entry::Cancel,
        ("end", None) => Entry::End,
        ("stats", Some(figures)) => Entry::Stats(parse_stats(figures)),
        (word, None) => Entry::Action(word.to_owned()),
        _ => panic!("{line}"),
    };
    (millis, entry)
}

/// Statistics as KubeVirt's launcher logs them: `TimeElapsed:4012ms DataProcessed:16MiB ... MemoryBandwidth:42Mbps`.
fn parse_stats(figures: &str) -> JobStats {
    let figure = |name: &str, unit: &str| -> Option<u64> {
        let mut words = figures.split(' ');
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.strip_suffix(unit).unwrap().parse().unwrap())
    };
    let mib = |name| figure(name, "MiB").map(|value| value * MIB);
    JobStats {
        job_type: JobType::Unbounded,
        time_elapsed: figure("TimeElapsed", "ms"),
        data_total: mib("DataTotal"),
        data_processed: mib("DataProcessed"),
        data_remaining: mib("DataRemaining"),
        memory_total: mib("MemoryTotal"),
        memory_processed: mib("MemoryProcessed"),
        memory_remaining: mib("MemoryRemaining"),
        memory_bps: figure("MemoryBandwidth", "Mbps").map(|megabits| megabits * 1_000_000 / 8),
        memory_iteration: figure("Iteration", ""),
        ..JobStats::default()
    }
}

fn recorded_name(action: Action) -> &'static str {
    match action {
        Action::Abort(_) => "abort",
        Action::Suspend => "suspend",
        Action::StartPostCopy => "post-copy",
        Action::SetDowntime(_) | Action::SetMaxDowntime(_) => "downtime",
    }
}

#[test]
fn monitor_acts_at_the_same_time_as_kubevirts_launcher() {
    let mut compared_actions = 0;
    for (name, run) in runs() {
        let ours = run.replay(&run.options, run.end());
        let words: Vec<_> = ours
            .iter()
            .map(|(_, action)| recorded_name(*action))
            .collect();
        let theirs = run.actions();
        let expected: Vec<_> = theirs.iter().map(|(_, word)| *word).collect();
        assert_eq!(words, expected, "{name}: {ours:?}");
        for ((at, action), (notified_at, _)) in ours.iter().zip(theirs) {
            // KubeVirt's launcher notified virt-handler within one sample.
            assert!(
                (*at..*at + 400).contains(&notified_at),
                "{name}: {action:?} at {at}, not at {notified_at}"
            );
            compared_actions += 1;
        }
    }
    assert_eq!(compared_actions, 8, "the actions of all runs");
}

#[test]
fn recorded_transfer_is_progress_and_its_last_remainder_is_not() {
    for name in ["cancelled", "connection-cut"] {
        let mut run = runs().remove(name).unwrap();
        run.entries.retain(|(_, entry)| *entry != Entry::Cancel);
        let short_timeout = MigrationOptions {
            progress_timeout: 1,
            completion_timeout_per_gib: 0,
            ..run.options.clone()
        };
        let log = run.replay(&short_timeout, 12_000);
        // The last recorded remainder, at 8.04 s, is first in the sample at 8.4 s.
        assert_eq!(
            log.first(),
            Some(&(10_400, Action::Abort(AbortCause::NoProgress(2)))),
            "{name}"
        );
    }
}

#[test]
fn stall_detector_does_not_act_on_recorded_migrations() {
    let stall_options = with_stall_detector(options());
    for (name, mut run) in runs() {
        run.entries.retain(|(_, entry)| *entry != Entry::Cancel);
        let log = run.replay(&stall_options, run.end());
        assert_eq!(log, [(0, Action::SetDowntime(300))], "{name}");
    }
}

#[test]
fn overdue_migration_is_completed_only_if_the_recorded_bandwidth_is_enough() {
    let last_action = |name: &str, limit: i64| {
        let mut run = runs().remove(name).unwrap();
        run.entries.retain(|(_, entry)| *entry != Entry::Cancel);
        let log = run.replay(&with_stall_detector(disruptive(limit, false)), run.end());
        log[1..].first().copied()
    };
    // 272 MiB take 54 s with 5.2 MB/s, and 6.5 s with 43.5 MB/s.
    assert_eq!(
        last_action("cancelled", 4),
        Some((5200, Action::Abort(AbortCause::Limit(4))))
    );
    assert_eq!(
        last_action("suspended-and-completed", 1),
        Some((2000, Action::Abort(AbortCause::Limit(1))))
    );
    assert_eq!(last_action("cancelled", 60), None);
}
