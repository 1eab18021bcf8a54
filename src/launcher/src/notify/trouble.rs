//! What the VM's owner is warned of: a guest that panicked, a disk that stopped the VM. Pure.

use std::collections::BTreeMap;

use domain::wire::GuestPanicInfo;
use libvirt::{Detail, Event, LifecycleEvent};

use super::Warning;

/// What is in trouble now.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The guest panicked; what QEMU's log tells of it is to be looked up.
    Panic,
    /// The VM was stopped by these disks.
    Disks(Vec<Warning>),
}

/// What is remembered between events.
#[derive(Debug, Default)]
pub struct Troubles {
    /// Disk by alias, and libvirt's word for its error.
    failing: BTreeMap<String, String>,
    panicked: bool,
}

impl Troubles {
    /// What follows from an event of the domain. A panic counts once, unless the guest's own crash
    /// kernel takes over: then it will run again.
    pub fn observe(&mut self, event: &Event) -> Option<Trouble> {
        match event {
            Event::IoError { alias, reason, .. } => {
                self.failing.insert(alias.clone(), reason.clone());
                None
            }
            Event::Lifecycle { event, detail, .. } => self.observe_lifecycle(*event, *detail),
            _ => None,
        }
    }

    fn observe_lifecycle(&mut self, event: LifecycleEvent, detail: Detail) -> Option<Trouble> {
        match (event, detail) {
            (LifecycleEvent::Suspended, Detail::IoError) => {
                let failing = std::mem::take(&mut self.failing);
                let warnings = failing.iter().map(|(alias, why)| disk(alias, why));
                Some(Trouble::Disks(warnings.collect()))
            }
            (LifecycleEvent::Resumed, _) => {
                self.failing.clear();
                None
            }
            (LifecycleEvent::Crashed, _) if self.panicked => None,
            (LifecycleEvent::Crashed, detail) => {
                self.panicked = detail == Detail::Panicked;
                Some(Trouble::Panic)
            }
            _ => None,
        }
    }
}

/// A user alias is `ua-` and the volume's name.
fn disk(alias: &str, why: &str) -> Warning {
    let volume = alias.strip_prefix("ua-").unwrap_or(alias);
    let message = match why {
        "enospc" => format!("VM Paused due to not enough space on volume: {volume}"),
        _ => format!("VM Paused due to IO error at the volume: {volume}"),
    };
    Warning {
        reason: "IOerror",
        message,
    }
}

/// The warning of a panic, and how virt-handler is told of it, from QEMU's log.
pub fn panic(log: &str) -> (Warning, GuestPanicInfo) {
    let (message, info) = match log.lines().rev().find_map(panic_info) {
        Some(info) => (describe(&info), info),
        None => (
            "GuestPanicked (details unavailable)".to_owned(),
            GuestPanicInfo {
                kind: "unknown".into(),
                ..GuestPanicInfo::default()
            },
        ),
    };
    let warning = Warning {
        reason: "GuestPanicked",
        message,
    };
    (warning, info)
}

fn describe(info: &GuestPanicInfo) -> String {
    if info.kind != "hyper-v" {
        return format!("GuestPanicked: type={}", info.kind);
    }
    let arguments = [info.arg1, info.arg2, info.arg3, info.arg4, info.arg5];
    let arguments = arguments.map(|argument| format!("'{argument:#x}'"));
    format!("GuestPanicked: {}", arguments.join(", "))
}

/// A line as libvirt writes it: `<time>: panic hyper-v: arg1='0x5a', arg2='0x1'...`.
fn panic_info(line: &str) -> Option<GuestPanicInfo> {
    let (_, panic) = line.split_once("panic ")?;
    let (kind, arguments) = panic.trim_start().split_once(':')?;
    if kind.is_empty() || kind.contains(char::is_whitespace) {
        return None;
    }
    let argument = |name: &str| -> u64 {
        let fields = arguments.split(',').map(str::trim);
        let mut values = fields.filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_default();
        let digits = value.trim_matches(['\'', '"']).trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap_or(0)
    };
    Some(GuestPanicInfo {
        kind: kind.to_owned(),
        arg1: argument("arg1"),
        arg2: argument("arg2"),
        arg3: argument("arg3"),
        arg4: argument("arg4"),
        arg5: argument("arg5"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lifecycle(event: LifecycleEvent, detail: Detail) -> Event {
        Event::Lifecycle {
            domain: "default_vm1".into(),
            event,
            detail,
        }
    }

    fn io_error(alias: &str, reason: &str) -> Event {
        Event::IoError {
            domain: "default_vm1".into(),
            alias: alias.into(),
            path: "/disk".into(),
            reason: reason.into(),
        }
    }

    #[test]
    fn a_disk_that_stops_the_vm_is_named_by_its_volume() {
        let mut troubles = Troubles::default();
        assert_eq!(troubles.observe(&io_error("ua-data", "enospc")), None);
        assert_eq!(troubles.observe(&io_error("ua-root", "")), None);
        let stopped = lifecycle(LifecycleEvent::Suspended, Detail::IoError);
        let Some(Trouble::Disks(warnings)) = troubles.observe(&stopped) else {
            panic!("no warnings");
        };
        let messages: Vec<_> = warnings.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "VM Paused due to not enough space on volume: data",
                "VM Paused due to IO error at the volume: root"
            ]
        );
        assert_eq!(troubles.observe(&stopped), Some(Trouble::Disks(Vec::new())));
    }

    #[test]
    fn an_error_that_stops_nothing_is_no_warning() {
        let mut troubles = Troubles::default();
        troubles.observe(&io_error("ua-data", "enospc"));
        troubles.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Unpaused));
        let stopped = lifecycle(LifecycleEvent::Suspended, Detail::IoError);
        assert_eq!(troubles.observe(&stopped), Some(Trouble::Disks(Vec::new())));
    }

    #[test]
    fn a_panic_is_told_once() {
        let mut troubles = Troubles::default();
        let panicked = lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
        assert_eq!(troubles.observe(&panicked), Some(Trouble::Panic));
        assert_eq!(troubles.observe(&panicked), None);
    }

    #[test]
    fn a_panic_in_the_words_of_the_log() {
        let log = "2024-09-30 16:30:49.506+0000: panic hyper-v: arg1='0x5a', arg2='0x1', \
                   arg3='0x0', arg4='0x0', arg5='0xff'\nlast line\n";
        let (warning, info) = panic(log);
        assert_eq!(
            warning.message,
            "GuestPanicked: '0x5a', '0x1', '0x0', '0x0', '0xff'"
        );
        assert_eq!((info.arg1, info.arg5), (0x5a, 0xff));
        let (warning, info) = panic("nothing\nof the kind: panic at the disco");
        assert_eq!(warning.message, "GuestPanicked (details unavailable)");
        assert_eq!(info.kind, "unknown");
    }
}
