//! Determines libvirt's log filters by the verbosity.

/// The lowest verbosity that turns on libvirt's debug log, as in KubeVirt.
const DEBUG_LOG_VERBOSITY: i64 = 5;
/// Filters for modules that log too much, at every verbosity. This list and [`QUIET_BELOW_VERBOSITY`] are KubeVirt's.
const VERBOSE_MODULES: &str = "3:remote 4:event 3:util.json 3:util.object 3:util.dbus 3:util.netlink \
                            3:node_device 3:rpc 3:access";
/// Filters for modules that log the commands to the guest agent, which may contain passwords. KubeVirt does not filter
/// these.
const SECRET_MODULES: &str = "3:qemu.qemu_agent 3:libvirt-qemu";
/// Further filters, which apply below the verbosity beside them.
const QUIET_BELOW_VERBOSITY: [(i64, &str); 3] = [
    (DEBUG_LOG_VERBOSITY + 3, "3:util.threadjob 3:cpu.cpu"),
    (DEBUG_LOG_VERBOSITY + 2, "3:qemu.qemu_monitor"),
    (
        DEBUG_LOG_VERBOSITY + 1,
        "3:qemu.qemu_monitor_json 3:conf.domain_addr",
    ),
];
/// The filter for all other modules: debug level.
const EVERYTHING_ELSE: &str = "1:*";

/// The `log_filters` setting; `None` if libvirt's debug log is off.
///
/// `flag` is `--libvirt-log-filters`, which wins. Otherwise `verbosity`, the variable `VIRT_LAUNCHER_LOG_VERBOSITY`,
/// decides, if it is high enough. Otherwise `debug`, which is whether `LIBVIRT_DEBUG_LOGS` is set, turns on the most
/// detailed log.
pub(crate) fn log_filters(flag: &str, verbosity: Option<&str>, debug: bool) -> Option<String> {
    if !flag.is_empty() {
        return Some(flag.to_owned());
    }
    let verbosity = verbosity
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(-1);
    match (verbosity >= DEBUG_LOG_VERBOSITY, debug) {
        (true, _) => Some(filters(verbosity)),
        (false, true) => Some(filters(i64::MAX)),
        (false, false) => None,
    }
}

fn filters(verbosity: i64) -> String {
    let quiet = QUIET_BELOW_VERBOSITY
        .iter()
        .filter(|(below, _)| verbosity < *below)
        .map(|(_, filters)| *filters);
    [VERBOSE_MODULES, SECRET_MODULES]
        .into_iter()
        .chain(quiet)
        .chain([EVERYTHING_ELSE])
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_filter_flag_precedes_verbosity_precedes_debug() {
        assert_eq!(
            log_filters("1:qemu", Some("9"), true).as_deref(),
            Some("1:qemu")
        );
        assert_eq!(log_filters("", None, false), None);
        assert_eq!(log_filters("", Some("2"), false), None);
        assert_eq!(log_filters("", Some("lots"), false), None);
        assert_eq!(
            log_filters("", Some("2"), true),
            log_filters("", Some("99"), false)
        );
    }

    #[test]
    fn higher_verbosity_filters_less() {
        let at = |verbosity: &str| log_filters("", Some(verbosity), false).unwrap_or_default();
        assert!(at("5").contains("qemu_monitor_json"));
        assert!(!at("6").contains("qemu_monitor_json") && at("6").contains("qemu.qemu_monitor"));
        assert!(!at("7").contains("qemu_monitor") && at("7").contains("threadjob"));
        assert!(!at("8").contains("threadjob") && at("8").contains("3:rpc"));
        assert!(at("8").ends_with(" 1:*") && at("8").contains("3:qemu.qemu_agent"));
    }
}
