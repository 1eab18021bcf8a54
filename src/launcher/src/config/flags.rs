//! The command line: KubeVirt's flags with KubeVirt's defaults, then this launcher's own flags.
//!
//! virt-controller builds the command line, and a cluster's user cannot add to it. So each of the launcher's own flags
//! can also be set by an environment variable, and each but `--hook-policy` by a file of the flag's name in
//! `/etc/virt-launcher/`; the command line comes first, then the variable, then the file.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Command, CommandFactory, FromArgMatches, Parser};
use quantity::go_duration;

/// Parses a boolean flag as Go does.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

/// The launcher's version, to which `make dist` adds the commit.
pub const VERSION: &str = match option_env!("BUILD_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Runs one virtual machine of KubeVirt.
///
/// Collects hooks, starts libvirt's daemons, serves virt-handler's commands on
/// <share-dir>/sockets/launcher-sock, reports events to <share-dir>/domain-notify-pipe.sock, and
/// ends when the virtual machine has.
#[allow(
    rustdoc::invalid_html_tags,
    reason = "this text is the output of --help"
)]
#[derive(Debug, Clone, Parser)]
#[command(name = "virt-launcher", version = VERSION, args_override_self = true, after_help = AFTER_HELP)]
pub struct Flags {
    /// How long to wait for hooks, for a domain, and for its QEMU process.
    #[arg(long, value_name = "DURATION", default_value = "3m0s", value_parser = go_duration::parse)]
    pub qemu_timeout: Duration,
    /// Name of the VirtualMachineInstance.
    #[arg(long, default_value = "")]
    pub name: String,
    /// UID of the VirtualMachineInstance.
    #[arg(long, default_value = "")]
    pub uid: String,
    /// Namespace of the VirtualMachineInstance.
    #[arg(long, default_value = "")]
    pub namespace: String,
    /// Directory shared with virt-handler.
    #[arg(long, value_name = "DIR", default_value = "/var/run/kubevirt")]
    pub kubevirt_share_dir: PathBuf,
    /// Base directory of cloud-init data and of overlays over images that must not change.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/run/kubevirt-ephemeral-disks"
    )]
    pub ephemeral_disk_dir: PathBuf,
    /// Base directory of containerDisk images.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/run/kubevirt/container-disks"
    )]
    pub container_disk_dir: PathBuf,
    /// Base directory of hotplugged disks.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/run/kubevirt/hotplug-disks"
    )]
    pub hotplug_disk_dir: PathBuf,
    /// Seconds that the guest has to shut down after a termination signal, before it is killed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub grace_period_seconds: u64,
    /// Number of hooks to wait for before anything starts: gRPC sidecars and WASM modules.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub hook_sidecars: usize,
    /// Directory of the EFI firmware.
    #[arg(long, value_name = "DIR", default_value = "/usr/share/edk2/ovmf")]
    pub ovmf_path: PathBuf,
    /// Run libvirt's daemons as this (unprivileged) user, in session mode.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub run_as_nonroot: bool,
    /// Use software emulation where hardware virtualization is missing.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub allow_emulation: bool,
    /// Emulate guests of another architecture than the node's.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub allow_cross_arch_emulation: bool,
    /// containerDisk images come as image volumes.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub image_volume: bool,
    /// Serve libvirt's migration hook.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub libvirt_hook_server_and_client: bool,
    /// Upgrade interfaces from the ordinal naming scheme on migration.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub upgrade_ordinal_ifaces: bool,
    /// Rewrite the mediated device of a vGPU on migration.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub vgpu_dedicated_hook: bool,
    /// Collect statistics through the guest agent.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub vm_stats_collector: bool,
    /// Let libvirt choose the firmware of EFI guests with secure boot.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub firmware_auto_selection: bool,
    /// End with an error at once, to test crash loops.
    #[arg(long, value_parser = go_bool, action = ArgAction::Set)]
    pub simulate_crash: bool,
    /// Memory that qemu-img may use to inspect an image.
    #[arg(long, value_name = "BYTES", default_value_t = 2_097_152_000)]
    pub disk_memory_limit: u64,
    /// How often the guest agent is asked about the system.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = go_duration::parse)]
    pub qemu_agent_sys_interval: Duration,
    /// How often the guest agent is asked about file systems.
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = go_duration::parse)]
    pub qemu_agent_file_interval: Duration,
    /// How often the guest agent is asked about users.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration::parse)]
    pub qemu_agent_user_interval: Duration,
    /// How often the guest agent is asked about itself.
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = go_duration::parse)]
    pub qemu_agent_version_interval: Duration,
    /// How often the guest agent is asked whether file systems are frozen.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration::parse)]
    pub qemu_fsfreeze_status_interval: Duration,
    /// libvirt's log filters, in libvirt's own notation.
    #[arg(long, value_name = "FILTERS", default_value = "")]
    pub libvirt_log_filters: String,
    /// The hypervisor to use.
    #[arg(long, default_value = "kvm")]
    pub hypervisor: String,
    /// Log verbosity: 0 to 2 is normal, 3 and 4 debug, 5 and more trace, 8 and more also libraries.
    #[arg(short = 'v', long = "v", value_name = "N", default_value_t = 2)]
    pub verbosity: u8,

    /// Directory with one sub-directory per hook, each with a socket or a *.wasm module in it
    /// [default: /var/run/kubevirt-hooks].
    #[arg(long, value_name = "DIR", env = "VIRT_LAUNCHER_HOOKS_DIR", help_heading = OWN_FLAGS_HEADING)]
    pub hooks_dir: Option<PathBuf>,
    /// Directory with one sub-directory per standing hook, each with a *.wasm module in it.
    /// --hook-sidecars does not count these hooks [default: /etc/virt-launcher/hooks, if it exists].
    #[arg(long, value_name = "DIR", env = "VIRT_LAUNCHER_STANDING_HOOKS_DIR", help_heading = OWN_FLAGS_HEADING)]
    pub standing_hooks_dir: Option<PathBuf>,
    /// Connect to this libvirt and start no daemon; test:///default is libvirt's simulator.
    #[arg(long, value_name = "URI", env = "VIRT_LAUNCHER_LIBVIRT_URI", help_heading = OWN_FLAGS_HEADING)]
    pub libvirt_uri: Option<String>,
    /// Deadline of one call of a WASM hook [default: 2s].
    #[arg(long, value_name = "DURATION", env = "VIRT_LAUNCHER_HOOK_CALL_DEADLINE", help_heading = OWN_FLAGS_HEADING)]
    pub hook_call_deadline: Option<String>,
    /// Deadline of all WASM hooks of one hook point together [default: 15s].
    #[arg(long, value_name = "DURATION", env = "VIRT_LAUNCHER_HOOK_CHAIN_DEADLINE", help_heading = OWN_FLAGS_HEADING)]
    pub hook_chain_deadline: Option<String>,
    /// Deadline of one call of a gRPC hook sidecar [default: 60s].
    #[arg(long, value_name = "DURATION", env = "VIRT_LAUNCHER_HOOK_SIDECAR_DEADLINE", help_heading = OWN_FLAGS_HEADING)]
    pub hook_sidecar_deadline: Option<String>,
    /// Memory limit of one WASM hook [default: 67108864].
    #[arg(long, value_name = "BYTES", env = "VIRT_LAUNCHER_HOOK_MEMORY", help_heading = OWN_FLAGS_HEADING)]
    pub hook_memory: Option<String>,
    /// Compile modules also where the kernel or the container does not let their compiler be confined (true or false)
    /// [default: false].
    #[arg(long, value_name = "BOOL", env = "VIRT_LAUNCHER_HOOK_COMPILE_UNCONFINED", help_heading = OWN_FLAGS_HEADING)]
    pub hook_compile_unconfined: Option<String>,
    /// The operator's policy for hooks, YAML [default: /etc/virt-launcher/hook-policy.yaml, if
    /// it exists].
    #[arg(long, value_name = "FILE", env = "VIRT_LAUNCHER_HOOK_POLICY", help_heading = OWN_FLAGS_HEADING)]
    pub hook_policy: Option<PathBuf>,
    /// Write a record of every hook run into this directory, for virt-hook replay; without cloud-init
    /// data [default: no records].
    #[arg(long, value_name = "DIR", env = "VIRT_LAUNCHER_HOOK_RECORD", help_heading = OWN_FLAGS_HEADING)]
    pub hook_record: Option<PathBuf>,
    /// Directory of this image with the artifacts of virt-hook compile [default:
    /// /usr/share/virt-launcher/hook-artifacts, if it exists].
    #[arg(long, value_name = "DIR", env = "VIRT_LAUNCHER_HOOK_ARTIFACTS", help_heading = OWN_FLAGS_HEADING)]
    pub hook_artifacts: Option<PathBuf>,
    /// The cluster's KubeVirt, such as v1.9.0 [default: what the image's /.version says].
    #[arg(long, value_name = "VERSION", env = "VIRT_LAUNCHER_KUBEVIRT_VERSION", help_heading = OWN_FLAGS_HEADING)]
    pub kubevirt_version: Option<String>,
    /// Directory with the pod's annotations and labels, files of the downward API, for hooks that read them
    /// [default: /etc/virt-launcher/pod-info].
    #[arg(long, value_name = "DIR", env = "VIRT_LAUNCHER_POD_INFO_DIR", help_heading = OWN_FLAGS_HEADING)]
    pub pod_info_dir: Option<PathBuf>,
    /// How long a hook waits for facts about the pod that do not exist yet [default: 5s].
    #[arg(long, value_name = "DURATION", env = "VIRT_LAUNCHER_POD_INFO_WAIT", help_heading = OWN_FLAGS_HEADING)]
    pub pod_info_wait: Option<String>,
}

/// The flags that Go parses as booleans.
const BOOLEAN_FLAGS: [&str; 10] = [
    "run_as_nonroot",
    "allow_emulation",
    "allow_cross_arch_emulation",
    "image_volume",
    "libvirt_hook_server_and_client",
    "upgrade_ordinal_ifaces",
    "vgpu_dedicated_hook",
    "vm_stats_collector",
    "firmware_auto_selection",
    "simulate_crash",
];
const OWN_FLAGS_HEADING: &str = "Flags of this launcher (not KubeVirt's)";
const AFTER_HELP: &str = "\
Durations are written as in 288s or 3m0s. Both --flag VALUE and --flag=VALUE work; a BOOL is
--flag, --flag=true or --flag=false.

Environment: VIRT_LAUNCHER_LOG_VERBOSITY overrides -v. LIBVIRT_DEBUG_LOGS=1 makes libvirt verbose.
STANDALONE_VMI holds a VirtualMachineInstance (YAML or JSON) to run without virt-handler. POD_NAME,
VIRTIOFSD_DEBUG_LOGS and SHARED_FILESYSTEM_PATHS are KubeVirt's. A flag of this launcher is taken from
the command line, else from its environment variable, else (but for --hook-policy) from the file
/etc/virt-launcher/FLAG-NAME.";

impl Flags {
    /// Parses a command line; `arguments[0]` is the program.
    pub fn read(arguments: &[OsString]) -> Result<Flags, clap::Error> {
        Flags::from_arg_matches(&Flags::clap_command().try_get_matches_from(arguments)?)
    }

    /// Parses a command line as [`Flags::read`] does, without the flags that only newer launchers have. Also returns those.
    pub(super) fn read_known(arguments: &[OsString]) -> Result<(Flags, Vec<String>), clap::Error> {
        let (known, skipped) = without_newer_flags(&Flags::clap_command(), arguments);
        Ok((Flags::read(&known)?, skipped))
    }

    /// The command with Go's notation of booleans: `--x`, `--x=true`, `--x=false`, and no value in a separate argument.
    fn clap_command() -> Command {
        let boolean = |flag: clap::Arg| {
            flag.required(false)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true")
                .default_value("false")
                .value_name("BOOL")
        };
        BOOLEAN_FLAGS
            .iter()
            .fold(Flags::command(), |command, name| {
                command.mut_arg(name, boolean)
            })
    }
}

/// How many letters a misspelt flag may differ in from the one that is meant.
const MAX_MISSPELT_LETTERS: usize = 2;
/// What is behind it decides whether hooks run, so that it is never skipped.
const HOOK_FLAGS: &str = "hook";

/// The arguments without the flags that `command` does not have, and those flags with their values. The word behind such a
/// flag is its value, unless it begins with `--`. Flags that may be misspelt, or that concern hooks, stay, so that they are
/// errors.
pub(super) fn without_newer_flags(
    command: &Command,
    arguments: &[OsString],
) -> (Vec<OsString>, Vec<String>) {
    let (mut kept, mut skipped) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    kept.extend(rest.next().cloned());
    while let Some(argument) = rest.next() {
        let Some((name, has_value)) = long_flag(argument) else {
            kept.push(argument.clone());
            continue;
        };
        if let Some(takes_next_word) = known(command, name) {
            kept.push(argument.clone());
            if takes_next_word && !has_value {
                kept.extend(rest.next().cloned());
            }
        } else if must_be_known(command, name) {
            kept.push(argument.clone());
        } else {
            let mut words = argument.to_string_lossy().into_owned();
            let value = rest
                .as_slice()
                .first()
                .filter(|word| long_flag(word).is_none());
            if let Some(value) = value.filter(|_| !has_value) {
                words = format!("{words} {}", value.to_string_lossy());
                rest.next();
            }
            skipped.push(words);
        }
    }
    (kept, skipped)
}

/// The name of a flag `--NAME` or `--NAME=VALUE`, and whether it has a value.
fn long_flag(argument: &OsStr) -> Option<(&str, bool)> {
    let flag = argument.to_str()?.strip_prefix("--")?;
    Some(match flag.split_once('=') {
        Some((name, _)) => (name, true),
        None => (flag, false),
    })
}

/// Whether a known flag takes the next word; `None` for an unknown one.
fn known(command: &Command, name: &str) -> Option<bool> {
    if ["help", "version"].contains(&name) {
        return Some(false);
    }
    let mut flags = command.get_arguments();
    let flag = flags.find(|flag| flag.get_long() == Some(name))?;
    let takes_value = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    Some(takes_value && !flag.is_require_equals_set())
}

fn must_be_known(command: &Command, name: &str) -> bool {
    let mut flags = command.get_arguments().filter_map(clap::Arg::get_long);
    name.starts_with(HOOK_FLAGS)
        || flags.any(|flag| strsim::damerau_levenshtein(flag, name) <= MAX_MISSPELT_LETTERS)
}
