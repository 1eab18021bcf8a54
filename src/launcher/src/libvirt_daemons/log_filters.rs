//! libvirt's log filters, by verbosity.

// KubeVirt's threshold: verbosity from here on turns libvirt's debug log on.
const THRESHOLD: i64 = 5;
// What is too chatty at every verbosity, then what more is left out below the highest ones.
// (KubeVirt's lists: the higher the verbosity, the less is silenced.)
const ALWAYS_QUIET: &str = "3:remote 4:event 3:util.json 3:util.object 3:util.dbus 3:util.netlink \
                            3:node_device 3:rpc 3:access";
// They write out what is sent to the guest agent, passwords among it. KubeVirt lets them.
const SECRET: &str = "3:qemu.qemu_agent 3:libvirt-qemu";
const QUIET_BELOW: [(i64, &str); 3] = [
    (THRESHOLD + 3, "3:util.threadjob 3:cpu.cpu"),
    (THRESHOLD + 2, "3:qemu.qemu_monitor"),
    (THRESHOLD + 1, "3:qemu.qemu_monitor_json 3:conf.domain_addr"),
];
const EVERYTHING_ELSE: &str = "1:*";

/// The `log_filters` setting, if libvirt's debug log is wanted at all.
///
/// `flag` is `--libvirt-log-filters` and wins; then `VIRT_LAUNCHER_LOG_VERBOSITY`; below its
/// threshold, `LIBVIRT_DEBUG_LOGS` (set to anything) asks for the most.
pub(crate) fn log_filters(flag: &str, verbosity: Option<&str>, debug: bool) -> Option<String> {
    if !flag.is_empty() {
        return Some(flag.to_owned());
    }
    let verbosity = verbosity
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(-1);
    match (verbosity >= THRESHOLD, debug) {
        (true, _) => Some(filters(verbosity)),
        (false, true) => Some(filters(i64::MAX)),
        (false, false) => None,
    }
}

fn filters(verbosity: i64) -> String {
    let quiet = QUIET_BELOW
        .iter()
        .filter(|(below, _)| verbosity < *below)
        .map(|(_, filters)| *filters);
    [ALWAYS_QUIET, SECRET]
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
