//! Tests of the command line, the environment and the default files.
#![allow(clippy::unwrap_used)]
use super::*;

fn config(arguments: &[&str]) -> Result<Config, ConfigError> {
    let arguments = std::iter::once("virt-launcher").chain(arguments.iter().copied());
    Config::from_parts(arguments, |_| None, Path::new("/nonexistent"))
}

#[test]
fn defaults_are_kubevirts() {
    let config = config(&[]).unwrap();
    let flags = &config.flags;
    assert_eq!(flags.qemu_timeout, Duration::from_secs(180));
    assert_eq!(flags.grace_period_seconds, 30);
    assert_eq!(flags.hook_sidecars, 0);
    assert_eq!(flags.ovmf_path, Path::new("/usr/share/edk2/ovmf"));
    assert_eq!(flags.disk_memory_limit, 2_097_152_000);
    assert_eq!(flags.qemu_agent_sys_interval, Duration::from_secs(120));
    assert_eq!(flags.qemu_agent_file_interval, Duration::from_secs(300));
    assert_eq!(flags.qemu_agent_user_interval, Duration::from_secs(10));
    assert_eq!(flags.qemu_agent_version_interval, Duration::from_secs(300));
    assert_eq!(flags.qemu_fsfreeze_status_interval, Duration::from_secs(5));
    assert_eq!(flags.hypervisor, "kvm");
    assert_eq!(flags.libvirt_log_filters, "");
    assert!(!flags.run_as_nonroot && !flags.allow_emulation && !flags.simulate_crash);
    assert_eq!(config.paths, Paths::kubevirt(false, ""));
    assert_eq!(config.hooks_dir, Path::new("/var/run/kubevirt-hooks"));
    assert_eq!(config.hook_limits, Limits::default());
}

/// A command line as virt-controller makes it for a VM without hooks.
#[test]
fn command_line_of_a_stock_pod_is_read() {
    let config = config(&[
        "--qemu-timeout",
        "288s",
        "--name",
        "vm1",
        "--uid",
        "1234",
        "--namespace",
        "default",
        "--kubevirt-share-dir",
        "/var/run/kubevirt",
        "--ephemeral-disk-dir",
        "/var/run/kubevirt-ephemeral-disks",
        "--container-disk-dir",
        "/var/run/kubevirt/container-disks",
        "--grace-period-seconds",
        "45",
        "--hook-sidecars",
        "1",
        "--ovmf-path",
        "/usr/share/OVMF",
        "--disk-memory-limit=2097152000",
        "--run-as-nonroot",
        "--allow-emulation=true",
        "--vm-stats-collector=false",
        "-v=3",
    ])
    .unwrap();
    let flags = &config.flags;
    assert_eq!(flags.qemu_timeout, Duration::from_secs(288));
    assert_eq!((flags.grace_period_seconds, flags.hook_sidecars), (45, 1));
    assert!(flags.run_as_nonroot && flags.allow_emulation && !flags.vm_stats_collector);
    assert_eq!(config.domain_name(), "default_vm1");
    assert!(config.paths.non_root);
    assert_eq!(config.verbosity, 3);
}

#[test]
fn both_flag_notations_are_read_and_the_last_one_wins() {
    let flags = config(&[
        "--name=a",
        "--name",
        "b",
        "-v",
        "5",
        "--run-as-nonroot",
        "--run-as-nonroot=false",
    ])
    .unwrap()
    .flags;
    assert_eq!(flags.name, "b");
    assert_eq!(flags.verbosity, 5);
    assert!(!flags.run_as_nonroot);
}

#[test]
fn boolean_flag_does_not_take_the_next_argument() {
    let flags = config(&["--run-as-nonroot", "--name", "vm1"])
        .unwrap()
        .flags;
    assert!(flags.run_as_nonroot);
    assert_eq!(flags.name, "vm1");
}

#[test]
fn error_names_the_invalid_flag() {
    let cases = [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--qemu-timeout", "soon"], "--qemu-timeout"),
        (&["--hook-sidecars", "-1"], "-1"),
        (&["--run-as-nonroot=perhaps"], "perhaps"),
        (&["--hook-call-deadline", "2"], "hook-call-deadline"),
        (&["--hook-memory", "64Mi"], "64Mi"),
        (
            &["--hook-compile-unconfined", "yes"],
            "--hook-compile-unconfined",
        ),
        (&["stray"], "stray"),
    ];
    for (arguments, expected) in cases {
        let error = config(arguments).unwrap_err().to_string();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn help_explains_every_flag() {
    use clap::CommandFactory;
    for argument in Flags::command().get_arguments() {
        assert!(
            argument.get_help().is_some(),
            "{} has no help",
            argument.get_id()
        );
    }
    let help = config(&["--help"]).unwrap_err().to_string();
    for expected in [
        "--qemu-timeout",
        "--simulate-crash",
        "--hooks-dir",
        "VIRT_LAUNCHER_LOG_VERBOSITY",
    ] {
        assert!(
            help.contains(expected),
            "{expected} is missing from\n{help}"
        );
    }
}

#[test]
fn each_start_that_permits_unconfined_compiling_warns() {
    let confined = config(&[]).unwrap();
    assert!(!confined.hook_limits.compile_unconfined && confined.warnings.is_empty());
    let unconfined = config(&["--hook-compile-unconfined=true"]).unwrap();
    assert!(unconfined.hook_limits.compile_unconfined);
    assert!(unconfined.warnings[0].starts_with("--hook-compile-unconfined: "));
}

#[test]
fn flag_default_files_are_overridden_by_the_command_line() {
    let image = tempfile::tempdir().unwrap();
    std::fs::write(image.path().join("hooks-dir"), "/hooks\n").unwrap();
    std::fs::write(image.path().join("hook-memory"), "1000").unwrap();
    std::fs::write(image.path().join("libvirt-uri"), "test:///default").unwrap();
    let read = |arguments: &[&str]| {
        let arguments = std::iter::once("virt-launcher").chain(arguments.iter().copied());
        Config::from_parts(arguments, |_| None, image.path()).unwrap()
    };
    let config = read(&[]);
    assert_eq!(config.hooks_dir, Path::new("/hooks"));
    assert_eq!(config.hook_limits.memory, 1000);
    assert!(config.is_test_driver());
    let policy = image.path().join("hook-policy.yaml");
    assert_eq!(config.hook_policy, PolicySource::IfPresent(policy));
    assert_eq!(
        read(&["--hook-policy=/policy"]).hook_policy,
        PolicySource::File("/policy".into())
    );
    assert_eq!(read(&["--hooks-dir=/other"]).hooks_dir, Path::new("/other"));
    let standing = StandingHooks::IfPresent(image.path().join("hooks"));
    assert_eq!(config.standing_hooks, standing);
    std::fs::write(image.path().join("standing-hooks-dir"), "/standing").unwrap();
    let read_standing = |arguments: &[&str]| read(arguments).standing_hooks;
    assert_eq!(read_standing(&[]), StandingHooks::In("/standing".into()));
    assert_eq!(
        read_standing(&["--standing-hooks-dir=/other"]),
        StandingHooks::In("/other".into())
    );
}

#[test]
fn environment_sets_verbosity_and_invalid_values_warn() {
    let with = |value: &str| {
        let value = value.to_owned();
        let environment =
            move |name: &str| (name == "VIRT_LAUNCHER_LOG_VERBOSITY").then(|| value.clone());
        Config::from_parts(
            ["virt-launcher", "-v", "2"],
            environment,
            Path::new("/nonexistent"),
        )
        .unwrap()
    };
    assert_eq!(with("7").verbosity, 7);
    let config = with("loud");
    assert_eq!(config.verbosity, 2);
    assert!(config.warnings[0].contains("loud"));
}
