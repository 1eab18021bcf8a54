//! Which of libvirt's events cause an alert, and how many.
use super::*;

fn lifecycle(event: LifecycleEvent, detail: Detail) -> Event {
    Event::Lifecycle {
        domain: "default_vm1".into(),
        event,
        detail,
    }
}

fn io_error(alias: &str, reason: &str) -> Event {
    disk_error(alias, reason, true)
}

fn disk_error(alias: &str, reason: &str, pauses_guest: bool) -> Event {
    Event::IoError {
        domain: "default_vm1".into(),
        pauses_guest,
        alias: alias.into(),
        path: "/disk".into(),
        reason: reason.into(),
    }
}

#[test]
fn alert_names_the_volume_that_paused_the_vm() {
    let mut alerts = AlertPolicy::default();
    assert_eq!(alerts.observe(&io_error("ua-data", "enospc")), None);
    assert_eq!(alerts.observe(&io_error("ua-root", "")), None);
    let stopped = lifecycle(LifecycleEvent::Suspended, Detail::IoError);
    let Some(Alert::Disks(warnings)) = alerts.observe(&stopped) else {
        panic!("no warnings");
    };
    let messages: Vec<_> = warnings
        .iter()
        .map(|warning| warning.message.as_str())
        .collect();
    assert_eq!(
        messages,
        [
            "VM Paused due to not enough space on volume: data",
            "VM Paused due to IO error at the volume: root"
        ]
    );
    assert_eq!(alerts.observe(&stopped), None, "reported before");
}

/// A disk whose errors go to the guest (`errorPolicy: report`) has not paused the VM.
#[test]
fn alert_omits_disks_whose_errors_the_guest_gets() {
    let mut alerts = AlertPolicy::default();
    alerts.observe(&disk_error("ua-cache", "", false));
    alerts.observe(&io_error("ua-data", "enospc"));
    let stopped = lifecycle(LifecycleEvent::Suspended, Detail::IoError);
    let full = disk_warning("ua-data", NO_SPACE);
    assert_eq!(alerts.observe(&stopped), Some(Alert::Disks(vec![full])));
    assert_eq!(alerts.observe(&disk_error("ua-cache", "", false)), None);
}

/// All disks of one full storage fail, and the first of them pauses the VM.
#[test]
fn disk_that_fails_after_the_pause_causes_an_alert_of_its_own() {
    let mut alerts = AlertPolicy::default();
    alerts.observe(&io_error("ua-root", "enospc"));
    alerts.observe(&lifecycle(LifecycleEvent::Suspended, Detail::IoError));
    let second = Alert::Disks(vec![disk_warning("ua-data", NO_SPACE)]);
    assert_eq!(alerts.observe(&io_error("ua-data", "enospc")), Some(second));
    for alias in ["ua-root", "ua-data"] {
        assert_eq!(alerts.observe(&io_error(alias, "enospc")), None, "{alias}");
    }
    alerts.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Unpaused));
    assert_eq!(alerts.observe(&io_error("ua-data", "enospc")), None);
    let repeated = alerts.observe(&lifecycle(LifecycleEvent::Suspended, Detail::IoError));
    assert_eq!(
        repeated,
        Some(Alert::Disks(vec![disk_warning("ua-data", NO_SPACE)]))
    );
}

#[test]
fn disk_error_without_a_pause_is_not_part_of_a_later_alert() {
    let mut alerts = AlertPolicy::default();
    alerts.observe(&io_error("ua-data", "enospc"));
    alerts.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Unpaused));
    let stopped = lifecycle(LifecycleEvent::Suspended, Detail::IoError);
    assert_eq!(alerts.observe(&stopped), Some(Alert::Disks(Vec::new())));
}

#[test]
fn pause_whose_event_was_lost_causes_one_alert() {
    let mut alerts = AlertPolicy::default();
    let errors = || [("ua-data".to_owned(), DiskFault::NoSpace)].into();
    let Some(Alert::Disks(warnings)) = alerts.observe_pause(errors()) else {
        panic!("no warning");
    };
    assert!(warnings[0].message.ends_with("space on volume: data"));
    assert_eq!(alerts.observe_pause(errors()), None);
    assert_eq!(alerts.observe(&io_error("ua-data", "enospc")), None);
    assert!(alerts.observe(&io_error("ua-root", "enospc")).is_some());
    alerts.observe(&lifecycle(LifecycleEvent::Resumed, Detail::Unpaused));
    alerts.observe(&lifecycle(LifecycleEvent::Suspended, Detail::IoError));
    assert_eq!(
        alerts.observe_pause(errors()),
        None,
        "reported by the event"
    );
}

#[test]
fn refused_detach_causes_one_alert_per_device() {
    let mut alerts = AlertPolicy::default();
    let (domain, alias) = ("default_vm1".to_owned(), "ua-data".to_owned());
    let refused = Event::DeviceRemovalFailed {
        domain: domain.clone(),
        alias: alias.clone(),
    };
    let Some(Alert::Device(warning)) = alerts.observe(&refused) else {
        panic!("no warning");
    };
    assert!(warning.message.contains("release data"), "{warning:?}");
    assert_eq!(
        alerts.observe(&refused),
        None,
        "every sync asks the guest again"
    );
    assert_eq!(
        alerts.observe(&Event::DeviceRemoved { domain, alias }),
        None
    );
    assert!(alerts.observe(&refused).is_some());
}

#[test]
fn panic_causes_one_alert() {
    let mut alerts = AlertPolicy::default();
    let panicked = lifecycle(LifecycleEvent::Crashed, Detail::Panicked);
    assert_eq!(alerts.observe(&panicked), Some(Alert::Panic));
    assert_eq!(alerts.observe(&panicked), None);
}

#[test]
fn each_expiry_of_the_watchdog_causes_an_alert_with_its_action() {
    let mut alerts = AlertPolicy::default();
    for (action, follows) in [
        (WatchdogAction::Reset, "the VM is reset"),
        (WatchdogAction::Reset, "the VM is reset"),
        (WatchdogAction::Pause, "the VM is paused"),
        (WatchdogAction::Other(9), "nothing follows"),
    ] {
        let domain = "default_vm1".into();
        let alert = alerts.observe(&Event::Watchdog { domain, action });
        let Some(Alert::Watchdog(warning)) = alert else {
            panic!("{action:?}: {alert:?}");
        };
        assert!(warning.message.ends_with(follows), "{}", warning.message);
    }
}
