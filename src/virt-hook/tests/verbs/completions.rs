//! `completions`, typed in real shells.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::virt_hook;

/// How long a shell may take for a line; long, because the machine may be busy.
const SHELL_TIMEOUT: Duration = Duration::from_secs(60);
/// A file of the directory in which the shells run.
const FILE: &str = "module-in-this-directory.wasm";

/// What is typed before Tab, and words that are offered, or a file.
const LINES: &[(&str, &[&str])] = &[
    (
        "virt-hook ",
        &["compare", "doctor", "libvirt-hook", "replay"],
    ),
    ("virt-hook ren", &["render"]),
    ("virt-hook policy ", &["check"]),
    ("virt-hook policy check --", &["--module", "--namespace"]),
    ("virt-hook new --lang ", &["c", "go", "python", "rust"]),
    (
        "virt-hook deploy --as ",
        &["configmap", "image", "plugin", "sidecar"],
    ),
    (
        "virt-hook run --point ",
        &["OnAttachDevice", "PreStart", "Shutdown"],
    ),
    ("virt-hook completions ", &["bash", "fish", "zsh"]),
    ("virt-hook check --color ", &["always", "auto", "never"]),
    ("virt-hook render --", &["--diff", "--hook", "--vmi"]),
    ("virt-hook libvirt-hook --", &["--hooks", "--marker"]),
    ("virt-hook render --vmi ", &[FILE]),
    ("virt-hook inspect ", &[FILE]),
    ("virt-hook inspect mod", &[FILE]),
];

/// Asserts that a shell offers the words of every line, and the file in no other place.
fn assert_offers(shell: &str, mut offered: impl FnMut(&str) -> String) {
    for (line, words) in LINES {
        let offered = offered(line);
        let found: Vec<&str> = offered.split_whitespace().collect();
        for word in *words {
            assert!(found.contains(word), "{shell}: {line}: {word}: {offered}");
        }
        assert_eq!(
            found.contains(&FILE),
            words.contains(&FILE),
            "{shell}: {line}: {offered}"
        );
    }
}

/// A directory with the completions of a shell and one more file.
fn directory_with_completions(shell: &str, name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let script = virt_hook(&["completions", shell]).success_stdout();
    fs::create_dir(directory.path().join(".zfunc")).unwrap();
    fs::write(directory.path().join(name), script).unwrap();
    fs::write(directory.path().join(FILE), "").unwrap();
    directory
}

/// A shell on a terminal, which `script` provides.
struct InteractiveShell {
    child: Child,
    keyboard: ChildStdin,
    screen: Receiver<Vec<u8>>,
    markers: usize,
}

impl InteractiveShell {
    /// Starts a shell, and types a line that sets it up.
    fn start(shell: &str, options: &str, directory: &Path, set_up: &str) -> Self {
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command"])
            .args([&format!("exec {shell} {options}"), "/dev/null"])
            .current_dir(directory)
            .env("HOME", directory)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of the package bsdutils");
        let mut output = child.stdout.take().unwrap();
        let (sender, screen) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let keyboard = child.stdin.take().unwrap();
        let mut shell = Self {
            child,
            keyboard,
            screen,
            markers: 0,
        };
        shell.run(&format!("stty cols 200 rows 60; {set_up}; PS1='rea''dy>'"));
        shell
    }

    /// Runs a line, and returns what was on the screen until the next prompt.
    fn run(&mut self, line: &str) -> String {
        self.markers += 1;
        // The line on the screen differs from what the shell prints.
        let command = format!("{line}; echo mar''ker-{}-\r", self.markers);
        self.keyboard.write_all(command.as_bytes()).unwrap();
        let marker = format!("marker-{}-", self.markers);
        let deadline = Instant::now() + SHELL_TIMEOUT;
        let mut screen = String::new();
        loop {
            let shown = screen.split_once(&marker);
            if let Some((before, _)) = shown.filter(|(_, after)| after.contains("ready>")) {
                return before.to_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}: {line}: {screen}"),
            }
        }
    }

    /// Types a part of a line and Tab twice, and returns what is on the screen.
    fn offered(&mut self, line: &str) -> String {
        // Control-U removes the line again.
        self.keyboard
            .write_all(format!("{line}\t\t\x15").as_bytes())
            .unwrap();
        without_control_sequences(&self.run("true"))
    }
}

impl Drop for InteractiveShell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text without sequences such as `ESC [ 1 m`; other control characters become spaces.
fn without_control_sequences(screen: &str) -> String {
    let mut text = String::new();
    let mut characters = screen.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\x1b' && characters.next_if_eq(&'[').is_some() {
            while characters
                .next()
                .is_some_and(|part| !part.is_ascii_alphabetic())
            {}
            text.push(' ');
        } else if character.is_control() {
            text.push(' ');
        } else {
            text.push(character);
        }
    }
    text
}

#[test]
fn bash_completes_verbs_their_options_and_values() {
    let directory = directory_with_completions("bash", "virt-hook.bash");
    let set_up = "source ./virt-hook.bash";
    let mut bash =
        InteractiveShell::start("bash", "--norc --noprofile -i", directory.path(), set_up);
    assert_offers("bash", |line| bash.offered(line));
}

#[test]
fn zsh_completes_verbs_their_options_and_values() {
    let directory = directory_with_completions("zsh", ".zfunc/_virt-hook");
    let set_up = "fpath=(~/.zfunc $fpath); autoload -Uz compinit; compinit -u -D";
    let mut zsh = InteractiveShell::start("zsh", "-f -i", directory.path(), set_up);
    assert_offers("zsh", |line| zsh.offered(line));
}

/// `complete -C` prints what Tab offers.
#[test]
fn fish_completes_verbs_their_options_and_values() {
    let directory = directory_with_completions("fish", "virt-hook.fish");
    assert_offers("fish", |line| {
        let output = Command::new("fish")
            .args([
                "--no-config",
                "--command",
                "source virt-hook.fish; complete -C $argv[1]",
                line,
            ])
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .output()
            .expect("fish, which scripts/setup installs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
}
