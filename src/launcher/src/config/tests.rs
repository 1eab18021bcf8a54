//! Tests of the command line, the environment and the default files.

use super::*;

fn config(arguments: &[&str]) -> Result<Config, ConfigError> {
    config_of_release("v1.9.0", arguments)
}

fn config_of_release(release: &str, arguments: &[&str]) -> Result<Config, ConfigError> {
    let image = tempfile::tempdir().unwrap();
    let version = image.path().join(".version");
    std::fs::write(&version, release).unwrap();
    Config::from_parts(&words(arguments), |_| None, image.path(), &version)
}

fn words(arguments: &[&str]) -> Vec<OsString> {
    let words = std::iter::once(&"virt-launcher").chain(arguments);
    words.map(Into::into).collect()
}

/// What virt-controller of a version newer than v1.10 might add.
#[test]
fn flags_of_newer_releases_are_skipped_with_their_values_and_a_warning() {
    let newer = [
        "--name",
        "vm1",
        "--quantum=5",
        "--tier",
        "gold",
        "--fast",
        "--uid",
        "1234",
        "--slow",
    ];
    let config = config_of_release("v1.12.0", &newer).unwrap();
    assert_eq!(
        (config.flags.name.as_str(), config.flags.uid.as_str()),
        ("vm1", "1234")
    );
    let skipped = "flags that are not known are skipped: --quantum=5, --tier gold, --fast, --slow";
    assert!(
        config.warnings.iter().any(|warning| warning == skipped),
        "{:?}",
        config.warnings
    );
    for release in ["v1.8.4", "v1.9.0", "v1.10.0"] {
        let error = config_of_release(release, &newer).unwrap_err().to_string();
        assert!(error.contains("--quantum"), "{release}: {error}");
    }
}

#[test]
fn misspelt_flags_stray_words_and_flags_of_hooks_are_errors_for_every_release() {
    for arguments in [
        &["--nmae", "vm1"][..],
        &["--hook-sidecar-count", "2"],
        &["--hooks", "2"],
        &["--tier", "gold", "stray"],
        &["--run-as-nonroo"],
    ] {
        let error = config_of_release("v1.12.0", arguments)
            .unwrap_err()
            .to_string();
        let word = arguments.iter().find(|word| error.contains(**word));
        assert!(word.is_some(), "{arguments:?}: {error}");
    }
}

#[test]
fn release_decides_whether_arriving_domains_are_edited() {
    let of = |release, arguments: &[&str]| {
        config_of_release(release, arguments)
            .unwrap()
            .serves_migration_hook()
    };
    assert!(!of("v1.9.0", &[]));
    assert!(of("v1.9.0", &["--libvirt-hook-server-and-client"]));
    assert!(of("v1.10.0", &[]));
}

#[test]
fn image_for_another_release_than_the_clusters_is_warned_of() {
    let ovmf_of_v1_8 = ["--ovmf-path", "/usr/share/OVMF"];
    let hook_flag = ["--libvirt-hook-server-and-client"];
    for (release, arguments, is_warned_of) in [
        ("v1.8.4", &ovmf_of_v1_8[..], false),
        ("v1.8.4", &[], true),
        ("v1.9.0", &ovmf_of_v1_8, true),
        ("v1.9.0", &hook_flag, false),
        ("v1.10.0", &hook_flag, true),
        ("v1.10.0", &[], false),
    ] {
        let config = config_of_release(release, arguments).unwrap();
        assert_eq!(
            !config.warnings.is_empty(),
            is_warned_of,
            "{release} {arguments:?}: {:?}",
            config.warnings
        );
    }
    let old = config_of_release("v1.7.4", &[]).unwrap_err().to_string();
    assert!(
        old.contains("v1.7.4") && old.contains("--kubevirt-version"),
        "{old}"
    );
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
        let version = image.path().join("kubevirt-version");
        Config::from_parts(&words(arguments), |_| None, image.path(), &version).unwrap()
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
        let nowhere = Path::new("/nonexistent");
        Config::from_parts(&words(&["-v", "2"]), environment, nowhere, nowhere).unwrap()
    };
    assert_eq!(with("7").verbosity, 7);
    let config = with("loud");
    assert_eq!(config.verbosity, 2);
    assert!(
        config
            .warnings
            .iter()
            .any(|warning| warning.contains("loud"))
    );
}
