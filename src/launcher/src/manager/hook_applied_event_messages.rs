//! The messages of `HookApplied` events: what each hook changed in one boot. Pure.

use std::collections::BTreeMap;

use hook_host::{FailurePolicy, HookIdentity, Outcome, Run, printable};

/// Maximum number of events per boot; further hooks share the last event. virt-handler's event recorder merges further
/// events with the same reason within ten minutes, and drops those of a VM that has more than 25, including warnings.
const MAX_EVENTS: usize = 8;
/// Maximum length in bytes of a name or a version, which come from the module.
const MAX_NAME_BYTES: usize = 64;
/// Maximum length of a message in bytes: the limit of Kubernetes' events, less what `printable` adds to a text that it
/// cuts.
const MAX_MESSAGE_BYTES: usize = 1000;

/// What a hook changed in one boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppliedHook {
    hook: String,
    identity: HookIdentity,
    /// The number of paths that the hook changed.
    changes: usize,
    /// The number of calls that failed and were ignored.
    failures: usize,
    dry_run: bool,
    /// The hook points at which the hook should have been called, too.
    uncalled_points: Vec<String>,
}

impl AppliedHook {
    /// One entry for each hook of these runs, in the order of the first calls.
    pub(super) fn from_runs(runs: &[Run]) -> Vec<AppliedHook> {
        let mut applied: Vec<AppliedHook> = Vec::new();
        let mut indexes = BTreeMap::new();
        for run in runs {
            let index = *indexes.entry(&run.hook).or_insert_with(|| {
                applied.push(AppliedHook {
                    hook: run.hook.clone(),
                    identity: run.identity.clone(),
                    changes: 0,
                    failures: 0,
                    dry_run: run.failure_policy == FailurePolicy::DryRun,
                    uncalled_points: run.uncalled_points.clone(),
                });
                applied.len() - 1
            });
            let hook = &mut applied[index];
            hook.changes += run.changes.len();
            hook.failures += usize::from(run.outcome != Outcome::Ok);
        }
        applied
    }

    fn message(&self) -> String {
        let (name, version) = (
            printable(&self.identity.name, MAX_NAME_BYTES),
            printable(&self.identity.version, MAX_NAME_BYTES),
        );
        let mut message = format!("hook {}: {name}", printable(&self.hook, MAX_NAME_BYTES));
        if !version.is_empty() {
            message += &format!(" {version}");
        }
        match self.identity.digest.as_str() {
            "" => message += " (sidecar)",
            digest => message += &format!(" (sha256:{digest})"),
        }
        let paths = if self.changes == 1 { "path" } else { "paths" };
        let verb = if self.dry_run {
            "would change"
        } else {
            "changed"
        };
        message += &format!(" {verb} {} {paths}", self.changes);
        match self.failures {
            0 => {}
            1 => message += "; 1 call failed and was ignored",
            many => message += &format!("; {many} calls failed and were ignored"),
        }
        if !self.uncalled_points.is_empty() {
            message += "; not called at ";
            message += &self.uncalled_points.join(" and ");
        }
        printable(&message, MAX_MESSAGE_BYTES)
    }
}

/// The messages of the events: one for each hook, or [`MAX_EVENTS`] of which the last lists the remaining hooks.
pub(super) fn messages(applied: &[AppliedHook]) -> Vec<String> {
    let own_events = match applied.len() <= MAX_EVENTS {
        true => applied.len(),
        false => MAX_EVENTS - 1,
    };
    let (hooks, remaining) = applied.split_at(own_events);
    let mut messages: Vec<_> = hooks.iter().map(AppliedHook::message).collect();
    if !remaining.is_empty() {
        let names: Vec<_> = remaining
            .iter()
            .map(|hook| printable(&hook.hook, MAX_NAME_BYTES))
            .collect();
        let text = format!("{} more hooks: {}", names.len(), names.join(", "));
        messages.push(printable(&text, MAX_MESSAGE_BYTES));
    }
    messages
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hook_host::{HookError, HookPoint};

    use super::*;

    fn run(hook: &str, point: HookPoint, outcome: Outcome) -> Run {
        Run {
            hook: hook.to_owned(),
            identity: HookIdentity {
                name: "smbios".to_owned(),
                version: "1.2.0".to_owned(),
                digest: "ab".repeat(32),
            },
            hook_point: point,
            uncalled_points: Vec::new(),
            is_final: false,
            changes: Vec::new(),
            duration: Duration::ZERO,
            peak_memory: 0,
            outcome,
            failure_policy: FailurePolicy::Ignore,
            log: Vec::new(),
        }
    }

    fn failed() -> Outcome {
        Outcome::Failed(HookError::Veto {
            hook: "a".into(),
            point: HookPoint::PreStart,
            message: "no".into(),
        })
    }

    #[test]
    fn hook_has_one_message_for_all_its_hook_points() {
        let runs = [
            run("b", HookPoint::PreStart, Outcome::Ok),
            run("a", HookPoint::PreStart, failed()),
            run("b", HookPoint::OnDefineDomain, Outcome::Ok),
        ];
        let digest = "ab".repeat(32);
        assert_eq!(
            messages(&AppliedHook::from_runs(&runs)),
            [
                format!("hook b: smbios 1.2.0 (sha256:{digest}) changed 0 paths"),
                format!(
                    "hook a: smbios 1.2.0 (sha256:{digest}) changed 0 paths; 1 call failed and was ignored"
                ),
            ]
        );
    }

    #[test]
    fn hook_points_that_are_not_called_are_named() {
        let mut partly_called = run("plugin/a[0]", HookPoint::OnDefineDomain, Outcome::Ok);
        partly_called.identity.digest = String::new();
        partly_called.uncalled_points = vec!["PreBoot".into(), "PreMigrationSource".into()];
        assert_eq!(
            messages(&AppliedHook::from_runs(&[partly_called])),
            [
                "hook plugin/a[0]: smbios 1.2.0 (sidecar) changed 0 paths; not called at PreBoot and \
                 PreMigrationSource"
            ]
        );
    }

    #[test]
    fn text_from_a_module_is_escaped_and_cut() {
        let mut evil = run("a", HookPoint::PreStart, Outcome::Ok);
        evil.identity.name = "x\u{1b}[2J\n".repeat(10_000);
        evil.identity.version = "\u{202e}1".repeat(10_000);
        evil.identity.digest = String::new();
        evil.failure_policy = FailurePolicy::DryRun;
        let messages = messages(&AppliedHook::from_runs(&[evil]));
        assert!(messages[0].len() < 1024, "{}", messages[0]);
        assert!(
            messages[0].chars().all(hook_host::is_printable),
            "{}",
            messages[0]
        );
        assert!(
            messages[0].ends_with("(sidecar) would change 0 paths"),
            "{}",
            messages[0]
        );
    }

    #[test]
    fn hooks_beyond_the_limit_share_the_last_event() {
        let runs: Vec<_> = (0..100)
            .map(|number| run(&format!("h{number}"), HookPoint::PreStart, Outcome::Ok))
            .collect();
        assert_eq!(messages(&AppliedHook::from_runs(&runs[..8])).len(), 8);
        let messages = messages(&AppliedHook::from_runs(&runs));
        assert_eq!(messages.len(), MAX_EVENTS);
        assert!(
            messages[7].starts_with("93 more hooks: h7, h8"),
            "{}",
            messages[7]
        );
        assert!(messages[7].len() < 1024, "{}", messages[7]);
    }
}
