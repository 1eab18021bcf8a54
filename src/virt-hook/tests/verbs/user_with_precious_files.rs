//! A user with files that a stranger's module would like to read, delete or run, and the program as that user starts it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use hook_host::policy::permission::DangerKind;
use hook_host::record::RecordConfig;
use hook_host::{CollectConfig, Compiler, Invocation, PolicySource, collect};

use super::signing_key::signing_key;
use super::{ProgramOutput, VMI, text, write};

/// The content of the user's key.
pub(super) const KEY: &str = "KEY-SECRET-1234";
/// The uid of somebody who is neither root nor nobody.
const ORDINARY_UID: u32 = 65_531;

/// A user with a home directory, and the program as that user starts it.
pub(super) struct User {
    pub(super) home: tempfile::TempDir,
    /// A directory of the test's own files, which the user can read.
    pub(super) work: tempfile::TempDir,
    pub(super) uid: Option<u32>,
    program: PathBuf,
}

impl User {
    /// Whoever runs the tests.
    pub(super) fn current() -> Self {
        Self::with_uid(None)
    }

    /// An ordinary user; only root can become one.
    pub(super) fn ordinary() -> Option<Self> {
        let is_root = rustix::process::geteuid().is_root();
        is_root.then(|| Self::with_uid(Some(ORDINARY_UID)))
    }

    fn with_uid(uid: Option<u32>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let work = tempfile::tempdir().unwrap();
        let mut program = PathBuf::from(env!("CARGO_BIN_EXE_virt-hook"));
        if uid.is_some() {
            // Others may not be able to read the build directory.
            let copy = work.path().join("virt-hook");
            fs::copy(&program, &copy).unwrap();
            program = copy;
        }
        let path = |name: &str| home.path().join(name);
        write(home.path(), "Documents/letter", "dear");
        write(home.path(), "note", "do not forget");
        write(home.path(), ".ssh/id", KEY);
        let script = format!(
            "#!/bin/sh\necho \"$@\" > {}\nexit 1\n",
            path("executed").display()
        );
        write(home.path(), "run.sh", &script);
        fs::set_permissions(path("run.sh"), Permissions::from_mode(0o755)).unwrap();
        for dir in [home.path(), work.path()] {
            fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        }
        if uid.is_some() {
            for name in [
                "",
                "Documents",
                "Documents/letter",
                "note",
                ".ssh",
                ".ssh/id",
                "run.sh",
            ] {
                chown(path(name), uid, uid).unwrap();
            }
            chown(work.path(), uid, uid).unwrap();
        }
        Self {
            home,
            work,
            uid,
            program,
        }
    }

    pub(super) fn home(&self) -> &str {
        text(self.home.path())
    }

    /// Writes a file that the user can read.
    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.work.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        for dir in path.ancestors().take_while(|dir| *dir != self.work.path()) {
            if self.uid.is_some() {
                chown(dir, self.uid, self.uid).unwrap();
            }
        }
        text(&path).to_owned()
    }

    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.home.path())
            .current_dir(self.work.path())
            .stdin(Stdio::null());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> ProgramOutput {
        self.command().args(arguments).output().unwrap().into()
    }

    /// Nothing of the user was read aloud, changed or run.
    #[track_caller]
    pub(super) fn assert_unharmed(&self, what: &str, output: &ProgramOutput) {
        let path = |name: &str| self.home.path().join(name);
        for (name, content) in [
            ("Documents/letter", "dear"),
            ("note", "do not forget"),
            (".ssh/id", KEY),
        ] {
            let now = fs::read_to_string(path(name)).unwrap_or_default();
            assert_eq!(now, content, "{what}: {name}");
        }
        let executed = fs::read_to_string(path("executed"));
        assert!(executed.is_err(), "{what} ran a program: {executed:?}");
        for shown in [&output.out, &output.err] {
            assert!(!shown.contains("KEY-SECRET"), "{what}: {shown}");
        }
    }

    /// Runs the verbs that call a module: without a policy, and with one that grants the whole dangerous set and no
    /// directory. The policy beside the cases is the one that the module needs.
    pub(super) fn run_calling_verbs(
        &self,
        name: &str,
        module: &[u8],
    ) -> Vec<(String, ProgramOutput)> {
        let home = self.home().as_bytes();
        let names_home = module.windows(home.len()).any(|bytes| bytes == home);
        let module = self.file(&format!("{name}/hook.wasm"), module);
        let module = module.as_str();
        let vmi = self.file(&format!("{name}-vmi.yaml"), VMI);
        let vmi = vmi.as_str();
        let minimal = self.run(&["inspect", module, "--policy-only"]);
        let minimal = minimal.success_stdout();
        let kinds: Vec<&str> = DangerKind::ALL.iter().map(|kind| kind.name()).collect();
        let policy = format!("allow: {{dangerous: [{}]}}\n", kinds.join(", "));
        let policy = self.file(&format!("{name}-policy.yaml"), policy);
        let policy = policy.as_str();
        self.file(&format!("{name}-cases/one/vmi.yaml"), VMI);
        self.file(&format!("{name}-cases/policy.yaml"), &minimal);
        let cases = self.work.path().join(format!("{name}-cases"));
        let update = ["test", "--hook", module, text(&cases), "--update"];
        let compare = ["compare", "--hook", module, "--vmi", vmi];
        let mut results = self.results_of(
            name,
            &[
                &["check", module, "--vmi", vmi, "--json"],
                &["check", module, "--policy", policy, "--json"],
                &["run", module, "--vmi", vmi, "--policy", policy],
                &["render", "--vmi", vmi, "--hook", module, "--policy", policy],
                &[&update[..], &["--accept-errors"]].concat(),
                &compare,
            ],
        );
        // It compiles the module several times, and harms no file that the module does not name.
        if names_home {
            let bench = ["bench", module, "--vmi", vmi, "--calls", "1"];
            results.extend(self.results_of(name, &[&bench]));
        }
        // A record of a cluster in which the module got what it declares.
        if minimal.contains("\n  dirs: []\n") {
            let record = self.record(name, &fs::read(module).unwrap(), policy);
            let replay = ["replay", text(&record), "--module", module];
            results.extend(self.results_of(name, &[&replay]));
        }
        results
    }

    /// Runs every verb that takes a module.
    pub(super) fn run_every_verb(&self, name: &str, module: &[u8]) -> Vec<(String, ProgramOutput)> {
        let mut results = self.run_calling_verbs(name, module);
        let path = |end: &str| self.work.path().join(format!("{name}{end}"));
        let key = signing_key(self.work.path(), &format!("{name}-key"));
        let (module, public) = (path("/hook.wasm"), key.with_extension("pub"));
        if self.uid.is_some() {
            for file in [&key, &public] {
                chown(file, self.uid, self.uid).unwrap();
            }
        }
        let (policy, vmi) = (path("-policy.yaml"), path("-vmi.yaml"));
        let (artifacts, cases, layout) = (path("-artifacts"), path("-cases"), path("-layout"));
        let (module, directory, policy, vmi) = (text(&module), path(""), text(&policy), text(&vmi));
        let (key, public, directory) = (text(&key), text(&public), text(&directory));
        let (artifacts, cases, layout) = (text(&artifacts), text(&cases), text(&layout));
        let compare = ["compare", "--hook", module, "--vmi", vmi];
        let hooks = ["libvirt-hook", "--hooks", directory];
        results.extend(self.results_of(
            name,
            &[
                &["inspect", module],
                &["run", module, "--vmi", vmi],
                &["render", "--vmi", vmi, "--hook", module],
                &["test", "--hook", module, cases, "--policy", policy],
                &[&compare[..], &["--policy", policy]].concat(),
                &[&compare[..], &["--original", module]].concat(),
                &["compile", module, "--into", artifacts],
                &["image", module, "--out", layout],
                &["deploy", module, "--as", "configmap"],
                &["sign", module, "--key", key],
                &["verify", module, "--key", public],
                &["policy", "check", policy, "--module", module],
                &["wrap", module, "--out", "wrapped.wasm"],
                &["push", layout, "localhost:1/hooks:1", "--plain-http"],
                &["serve", "--module", module, "--socket", "nowhere/hook.sock"],
                &[&hooks[..], &["default_web", "start", "begin", "-"]].concat(),
            ],
        ));
        results
    }

    /// The results of command lines, after each of which the user is unharmed.
    fn results_of(&self, name: &str, command_lines: &[&[&str]]) -> Vec<(String, ProgramOutput)> {
        let result = |arguments: &&[&str]| {
            let output = self.run(arguments);
            self.assert_unharmed(&format!("{name}: {arguments:?}"), &output);
            (arguments[0].to_owned(), output)
        };
        command_lines.iter().map(result).collect()
    }
}

impl User {
    /// Records a run of a module at OnDefineDomain, as a launcher does.
    pub(super) fn record(&self, name: &str, module: &[u8], policy: &str) -> PathBuf {
        let path = |end: &str| self.work.path().join(format!("{name}-recorded/{end}"));
        let file = self.file(&format!("{name}-recorded/hooks/h/hook.wasm"), module);
        let long_ago = SystemTime::now() - Duration::from_secs(3600);
        let file = fs::File::options().write(true).open(file).unwrap();
        file.set_modified(long_ago).unwrap();
        let vmi = self.file(&format!("{name}-recorded/vmi.yaml"), VMI);
        let domain = self.run(&["render", "--vmi", &vmi, "--prepared"]);
        let domain = domain.success_stdout();
        let config = CollectConfig {
            hooks_dir: path("hooks"),
            expected: 1,
            deadline: Duration::from_secs(60),
            artifacts_dir: path("compiled"),
            compiler: Compiler::InProcess,
            policy: PolicySource::File(policy.into()),
            record: Some(RecordConfig {
                dir: path("records"),
                secrets: true,
            }),
            ..CollectConfig::default()
        };
        let invocation = Invocation {
            namespace: "ns".into(),
            name: "vm".into(),
            domain: "ns_vm".into(),
            ..Invocation::default()
        };
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let chain = collect(config).await.unwrap();
            // A veto is recorded, too.
            let _ = chain.on_define_domain(&invocation, "{}", domain).await;
        });
        let record = fs::read_dir(path("records")).unwrap().flatten().next();
        let record = record.unwrap().path();
        for path in [path("records"), record.clone()] {
            if self.uid.is_some() {
                chown(path, self.uid, self.uid).unwrap();
            }
        }
        record
    }
}
