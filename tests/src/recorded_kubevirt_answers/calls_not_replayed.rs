//! Recorded calls that are not replayed, and the tests that cover their behaviour instead.

#[cfg(test)]
mod tests;

use super::call_pattern::{CallPattern, call};
use super::{Outcome, RecordedCall};

/// A call in a replayed topic that is not replayed.
struct SkipRule {
    call: CallPattern,
    reason: &'static str,
}

const SKIP_RULES: &[SkipRule] = &[
    SkipRule {
        call: call("04-pause", 15, "exec"),
        reason: "whether the agent is back after the reboot is a matter of the moment",
    },
    SkipRule {
        call: call("08-backup", 3, "exec"),
        reason: "the recorded disk has a file system; ours has none",
    },
    SkipRule {
        call: call("08-backup", 7, "backup"),
        reason: "QEMU could not bind its socket there; here it can, as in 08-backup-pull",
    },
];

/// Why a call in a replayed topic is not replayed, if it is not.
pub fn skip_reason(call: &RecordedCall) -> Option<&'static str> {
    if matches!(call.outcome, Outcome::Lost(_)) {
        return Some("no answer was recorded");
    }
    let rule = SKIP_RULES.iter().find(|rule| rule.call.matches(call));
    rule.map(|rule| rule.reason)
}

/// The skip rules that match none of these calls.
pub fn unneeded_skip_rules(calls: &[RecordedCall]) -> Vec<String> {
    let unneeded = SKIP_RULES
        .iter()
        .filter(|rule| !calls.iter().any(|call| rule.call.matches(call)));
    unneeded.map(|rule| rule.call.to_string()).collect()
}

/// The tests that cover the behaviour in a topic that is not replayed.
#[derive(Clone, Copy, Debug)]
pub enum Coverage {
    /// A test with this name.
    Test(&'static str),
    /// A row of the fault matrix with this name.
    FaultRow(&'static str),
    /// A script with this path in the workspace.
    Script(&'static str),
    /// Another recording, which has the same answers.
    OtherRecording,
}

/// A topic that is not replayed.
#[derive(Clone, Copy, Debug)]
pub struct TopicNotReplayed {
    /// The name of the topic.
    pub name: &'static str,
    /// The tests that cover the behaviour in the topic.
    pub coverage: Coverage,
    /// Which part of its behaviour is covered, and why the topic is not replayed.
    pub reason: &'static str,
}

const fn topic(name: &'static str, coverage: Coverage, reason: &'static str) -> TopicNotReplayed {
    TopicNotReplayed {
        name,
        coverage,
        reason,
    }
}

const LIFECYCLE: Coverage = Coverage::Test("boot_pause_reboot_and_shutdown_as_root");
const GUEST_TIME: Coverage = Coverage::Test("guest_time_is_set_after_a_pause");
const NOTIFY: Coverage = Coverage::FaultRow("notify socket away 10 s at the end");

/// All topics that are not replayed.
pub const TOPICS_NOT_REPLAYED: &[TopicNotReplayed] = &[
    topic("01-boot-1", LIFECYCLE, "one sync, which succeeds"),
    topic("01-boot-2", LIFECYCLE, "one sync, which succeeds"),
    topic("01-boot-3", LIFECYCLE, "one sync, which succeeds"),
    topic(
        "02-agent-killed",
        Coverage::FaultRow("guest agent hung, other calls"),
        "calls that block until virt-handler gives up, where ours are answered",
    ),
    topic(
        "04-guesttime",
        GUEST_TIME,
        "the answers hold the guest's clock; the test, when it is set",
    ),
    topic("04-guesttime-hwclock", GUEST_TIME, "as 04-guesttime"),
    topic("04-guesttime-long", GUEST_TIME, "as 04-guesttime"),
    topic(
        "05-reboot",
        LIFECYCLE,
        "successes, and after them the guest's facts and the domain of 02-answers",
    ),
    topic("05-softreboot-agent", LIFECYCLE, "as 05-reboot"),
    topic(
        "07-cpuhotplug",
        Coverage::Test("processors_are_plugged_up_to_the_maximum"),
        "the recorded refusal of a fifth processor; that of an unplug which the guest ignores is compared with libvirt's \
         fake (cpu_that_the_guest_keeps_fails_the_request)",
    ),
    topic(
        "07-memhotplug-slots4",
        Coverage::Test("memory_is_plugged_and_unplugged_as_the_guest_follows"),
        "another VM; its domain has the shape of the first one that was recorded",
    ),
    topic(
        "08-hotplug-slots4",
        Coverage::Test("disks_are_attached_seen_by_the_guest_and_detached"),
        "another VM; its domain has the shape of the first one that was recorded",
    ),
    topic(
        "09-guestpoweroff",
        Coverage::OtherRecording,
        "a command that ends the guest fails with the error of 03-freeze's last call",
    ),
    topic(
        "09-shutdown-noacpi",
        Coverage::Test("a_guest_that_ignores_shutdown_is_killed_after_the_grace_period"),
        "successes; the recorded guest has no ACPI",
    ),
    topic("09-shutdown-nodelete", LIFECYCLE, "successes"),
    topic(
        "10-sigterm",
        Coverage::FaultRow("SIGTERM"),
        "successes, until the launcher is gone",
    ),
    topic(
        "10-sigterm-handler",
        Coverage::FaultRow("SIGTERM"),
        "a shutdown, which succeeds, and a delete that the launcher's end cuts off",
    ),
    topic(
        "11-kill-virtqemud",
        Coverage::FaultRow("daemon killed, queries at once"),
        "a query during the daemon's restart fails; ours succeeds",
    ),
    topic("12-notify-missing", NOTIFY, "successes"),
    topic("12-notify-missing-shutdown", NOTIFY, "successes"),
    topic(
        "20-latency",
        Coverage::Script("scripts/measure"),
        "one sync",
    ),
];
