//! `virt-hook libvirt-hook`: libvirt's hook of QEMU's domains. In a launcher's pod, also under the name of KubeVirt's
//! own, `libvirt-hook-client`, it asks the launcher; elsewhere (`--hooks`) it runs modules itself.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;
use std::{io, thread};

use clap::Args;
use domain_xml::Document;
use hook_host::policy::{HostVersions, UnknownVersion};
use hook_host::record::RecordConfig;
use hook_host::{
    CollectConfig, Compiler, Invocation, Plugins, PolicySource, Reason, StandingHooks, collect,
};
use kubevirt_api::libvirt_migration_hook_protocol::{
    MAX_BYTES, MIGRATED_MARKER, SOCKET, announced, read_refusal,
};
use rustix::fs::OFlags;
use serde_json::json;

use crate::interactive_compile::HOST_NAME;
use crate::tokio_runtime::runtime;
use crate::verbs::serve::PRECOMPILED_DIR;

pub(crate) const HELP: &str = "\
libvirt runs /etc/libvirt/hooks/qemu with these arguments. Make that file a link to this program under the
name libvirt-hook-client. On a migration's target, this program passes the domain from standard input to the
launcher, and prints the domain that the launcher returns. After a VM has migrated away, it writes a marker
file: KubeVirt then knows that the backend storage here is outdated. Other operations succeed at once.

With --hooks, on a machine without KubeVirt, this program runs the modules itself, on a domain that migrates
to this machine or is restored: libvirt accepts a hook's changes only then. Compile the modules in advance.
Example of an executable /etc/libvirt/hooks/qemu.d/50-virt-hook:
  #!/bin/sh
  exec virt-hook libvirt-hook --hooks /etc/virt-hook/hooks --policy /etc/virt-hook/policy.yaml -- \"$@\"

Exit codes:
  0  success, or nothing to do
  1  the domain is refused, or the marker file cannot be written; standard error says why, and libvirt passes
     it to the source";
/// The names under which this program is libvirt's hook, whatever its arguments are.
const NAMES: [&str; 2] = ["libvirt-hook-client", "qemu"];

/// Arguments of `virt-hook libvirt-hook`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The launcher's socket
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Marker file written after the VM has migrated away
    #[arg(long, value_name = "PATH", default_value = MIGRATED_MARKER)]
    marker: PathBuf,
    #[command(flatten)]
    standalone: StandaloneArguments,
    /// libvirt's arguments: domain, operation, sub-operation, extra
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    call: Vec<String>,
}

/// Runs the hook if this program was started under one of [`NAMES`], with the arguments `DOMAIN OPERATION SUBOPERATION
/// DETAIL`.
pub(crate) fn by_program_name() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let name = Path::new(&program).file_name().and_then(OsStr::to_str)?;
    if !NAMES.contains(&name) {
        return None;
    }
    let call = arguments.map(|argument| argument.to_string_lossy().into_owned());
    Some(run(&Arguments {
        socket: SOCKET.into(),
        marker: MIGRATED_MARKER.into(),
        standalone: StandaloneArguments::default(),
        call: call.collect(),
    }))
}

/// Maximum number of bytes of a reason that is printed.
const MAX_REASON: usize = 4096;

/// Runs the hook.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match handle_call(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            print_reason(&reason);
            ExitCode::FAILURE
        }
    }
}

/// Prints the reason to standard error, which libvirt passes on to the migration's source.
#[allow(clippy::print_stderr, reason = "libvirt reads it")]
fn print_reason(reason: &str) {
    // The reason may contain text of a hook.
    eprintln!("virt-hook: {}", hook_host::printable(reason, MAX_REASON));
}

fn handle_call(arguments: &Arguments) -> Result<(), String> {
    let call: Vec<&str> = arguments.call.iter().map(String::as_str).collect();
    if let Some(hooks) = arguments.standalone.hooks() {
        return match call[..] {
            [_, "migrate" | "restore", "begin", ..] => hooks.pass_domain(),
            _ => Ok(()),
        };
    }
    match call[..] {
        [_, "migrate", "begin", ..] => pass_domain(&arguments.socket),
        [_, "release", "end", "migrated", ..] => create_marker(&arguments.marker)
            .map_err(|error| format!("marker {}: {error}", arguments.marker.display())),
        _ => Ok(()),
    }
}

/// Creates the marker, which decides which PVC with TPM and EFI state is kept after an interrupted migration. A link under
/// its name is not followed.
fn create_marker(marker: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o644);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options.open(marker).map(drop)
}

/// Deadline of the whole request; KubeVirt's own hook waits as long.
const LAUNCHER_DEADLINE: Duration = Duration::from_secs(30);

/// Passes libvirt's domain to the launcher, and the launcher's answer to libvirt.
fn pass_domain(socket: &Path) -> Result<(), String> {
    let socket = socket.to_owned();
    let ask_launcher = move || ask_launcher(&socket, &read_domain()?);
    write_domain(&run_with_deadline(
        LAUNCHER_DEADLINE,
        "the launcher gave no answer",
        ask_launcher,
    )?)
}

/// Asks the launcher for the domain to use in place of `xml`.
fn ask_launcher(socket: &Path, xml: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("the launcher's socket {}: {error}", socket.display());
    let mut launcher = UnixStream::connect(socket).map_err(failed)?;
    // KubeVirt's launcher reads to the end of the root element. A byte behind it that is not read when the launcher
    // closes the connection would become an error here.
    launcher
        .write_all(announced(xml.trim_end()).as_bytes())
        .map_err(failed)?;
    // Fails if the launcher has already answered and closed the connection.
    let _ = launcher.shutdown(Shutdown::Write);
    let answer = read_limited(&launcher, "the launcher's answer")?;
    if let Some(reason) = read_refusal(&answer) {
        return Err(reason.to_owned());
    }
    if answer.trim().is_empty() {
        return Err("the launcher refuses the domain; its log says why".to_owned());
    }
    Ok(answer)
}

/// Deadline of the whole run: libvirt holds the domain's lock meanwhile.
const HOOKS_DEADLINE: Duration = Duration::from_secs(10);

/// The directory of the modules, and what they may do.
#[derive(Debug, Clone, Default, Args)]
struct StandaloneArguments {
    /// Run the modules of this directory, one sub-directory per hook, instead of asking a launcher
    #[arg(long, value_name = "DIR")]
    hooks: Option<PathBuf>,
    /// The operator's policy, YAML; without it, modules are granted their wishes, except the dangerous set
    #[arg(long, value_name = "FILE", requires = "hooks")]
    policy: Option<PathBuf>,
    /// Directory of the artifacts that `virt-hook compile` wrote
    #[arg(long, value_name = "DIR", requires = "hooks", default_value = PRECOMPILED_DIR)]
    hook_artifacts: PathBuf,
    /// An annotation that modules see on the VM. May be repeated
    #[arg(long = "annotation", value_name = "KEY=VALUE", requires = "hooks", value_parser = annotation)]
    annotations: Vec<(String, String)>,
    /// Directory for the records of runs, for `virt-hook replay`
    #[arg(long, value_name = "DIR", requires = "hooks")]
    hook_record: Option<PathBuf>,
}

fn annotation(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl StandaloneArguments {
    /// The hooks of this machine, if `--hooks` names some.
    fn hooks(&self) -> Option<StandaloneHooks> {
        let hooks = self.hooks.clone()?;
        Some(StandaloneHooks {
            config: CollectConfig {
                standing: StandingHooks::In(hooks),
                deadline: HOOKS_DEADLINE,
                precompiled_dirs: vec![self.hook_artifacts.clone()],
                // libvirt waits for the hooks, and compiling takes seconds.
                compiler: Compiler::None,
                host_name: HOST_NAME.to_owned(),
                policy: match &self.policy {
                    Some(path) => PolicySource::File(path.clone()),
                    None => PolicySource::None,
                },
                versions: HostVersions {
                    unknown: UnknownVersion::Warn,
                    ..HostVersions::default()
                },
                record: self.hook_record.clone().map(|dir| RecordConfig {
                    dir,
                    secrets: false,
                }),
                ..CollectConfig::default()
            },
            annotations: self.annotations.clone(),
        })
    }
}

/// The hooks of a machine whose libvirt runs this program.
struct StandaloneHooks {
    config: CollectConfig,
    annotations: Vec<(String, String)>,
}

impl StandaloneHooks {
    /// Passes libvirt's domain through the modules. A change that libvirt refuses on an incoming domain is the module's
    /// failure.
    fn pass_domain(self) -> Result<(), String> {
        let change = move || self.change(read_domain()?);
        write_domain(&run_with_deadline(
            HOOKS_DEADLINE,
            "the hooks did not end",
            change,
        )?)
    }

    fn change(self, xml: String) -> Result<String, String> {
        let (invocation, vmi) = self.invocation_and_vmi(&xml)?;
        let runtime = runtime().map_err(|failure| failure.line())?;
        runtime.block_on(async {
            let chain = collect(self.config).await;
            let chain = chain.map_err(|error| error.to_string())?;
            let no_plugins = Plugins::default();
            let result = chain.on_incoming_domain(&invocation, &vmi, xml, &no_plugins);
            let (xml, _) = result.await.map_err(|error| error.to_string())?;
            Ok(xml)
        })
    }

    /// The invocation and the VMI with which modules are called for the domain: libvirt knows only its name and UUID.
    fn invocation_and_vmi(&self, xml: &str) -> Result<(Invocation, String), String> {
        let domain = Document::parse(xml)
            .map_err(|error| format!("the domain on standard input: {error}"))?;
        let text = |name: &str| {
            let child = domain.root().child(name);
            child.map(|child| child.text().trim().to_owned())
        };
        let name = text("name").ok_or("the domain on standard input has no name")?;
        let uid = text("uuid").unwrap_or_default();
        let annotations: serde_json::Map<_, _> = self
            .annotations
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let vmi = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": { "name": name, "uid": uid, "annotations": annotations },
            "spec": { "domain": { "devices": {} } },
        });
        let invocation = Invocation {
            reason: Reason::MigrationTarget,
            namespace: String::new(),
            name: name.clone(),
            uid,
            domain: name,
        };
        Ok((invocation, vmi.to_string()))
    }
}

/// Reads the domain that libvirt passes.
fn read_domain() -> Result<String, String> {
    read_limited(io::stdin().lock(), "standard input")
}

/// Passes the domain to use to libvirt.
fn write_domain(xml: &str) -> Result<(), String> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(xml.as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("standard output: {error}"))
}

/// Reads at most [`MAX_BYTES`]; `name` is that of the source in errors.
fn read_limited(from: impl Read, name: &str) -> Result<String, String> {
    let mut text = String::new();
    from.take(MAX_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("{name}: {error}"))?;
    if text.len() > MAX_BYTES {
        return Err(format!("{name} has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

/// Runs `work` in a thread. If it is not done within the deadline, the error begins with `timeout_text`, and the thread
/// ends with the process.
fn run_with_deadline<T: Send + 'static>(
    deadline: Duration,
    timeout_text: &str,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Fails only if the deadline has expired.
        let _ = sender.send(work());
    });
    receiver
        .recv_timeout(deadline)
        .map_err(|_| format!("{timeout_text} within {deadline:?}"))?
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use kubevirt_api::libvirt_migration_hook_protocol::{read_request, refusal};

    use super::*;

    fn call(marker: &Path, words: &str) -> Result<(), String> {
        handle_call(&Arguments {
            socket: "/nonexistent/socket".into(),
            marker: marker.to_owned(),
            standalone: StandaloneArguments::default(),
            call: words.split(' ').map(str::to_owned).collect(),
        })
    }

    #[test]
    fn only_a_vm_that_migrated_away_leaves_the_marker() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("migrated");
        for other in [
            "a prepare begin -",
            "a start begin -",
            "a started begin -",
            "a stopped end -",
            "a release end destroyed",
            "a release end",
            "a",
            "",
        ] {
            call(&marker, other).unwrap();
        }
        assert!(!marker.exists());
        for _ in 0..2 {
            call(&marker, "a release end migrated").unwrap();
        }
        let mode = std::fs::metadata(&marker).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let (link, other) = (
            directory.path().join("link"),
            directory.path().join("other"),
        );
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert!(call(&link, "a release end migrated").is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"kept");
        let error = call(&marker.join("x"), "a release end migrated").unwrap_err();
        assert!(error.contains("migrated/x"), "{error}");
    }

    #[test]
    fn absent_launcher_refuses_the_domain() {
        let directory = tempfile::tempdir().unwrap();
        let error = ask_launcher(&directory.path().join("none"), "<domain/>").unwrap_err();
        assert!(error.contains("none"), "{error}");
    }

    /// The result of `ask` if the launcher gives this answer.
    fn ask_launcher_that_answers(answer: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("hook-socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = answer.to_owned();
        let launcher = thread::spawn(move || {
            let (mut hook, _) = listener.accept().unwrap();
            let mut request = String::new();
            hook.read_to_string(&mut request).unwrap();
            assert_eq!(read_request(&request), ("<domain/>", true));
            hook.write_all(answer.as_bytes()).unwrap();
        });
        let result = ask_launcher(&socket, "<domain/>");
        launcher.join().unwrap();
        result
    }

    /// KubeVirt's launcher does so (tests/corpus/libvirt-hook-calls/README.md).
    #[test]
    fn launcher_may_close_at_the_end_of_the_root_element() {
        const END: &[u8] = b"</domain>";
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("hook-socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let launcher = thread::spawn(move || {
            let (mut hook, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(END) {
                let mut byte = [0];
                hook.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            hook.write_all(b"<domain></domain>").unwrap();
        });
        let answer = ask_launcher(&socket, "<domain>\n</domain>\n");
        launcher.join().unwrap();
        assert_eq!(answer.unwrap(), "<domain></domain>");
    }

    #[test]
    fn answer_is_the_domain_or_the_reason() {
        assert_eq!(
            ask_launcher_that_answers("<domain><a/></domain>").unwrap(),
            "<domain><a/></domain>"
        );
        assert_eq!(
            ask_launcher_that_answers(&refusal("hook a: no")).unwrap_err(),
            "hook a: no"
        );
        let empty = ask_launcher_that_answers("").unwrap_err();
        assert!(empty.contains("refuses the domain"), "{empty}");
    }
}
