//! `compile`: artifacts for an image.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{program, smbios, text, virt_hook, write};

/// How long to wait for a program; long, because the machine may be busy.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn an_artifact_is_written_for_each_module() {
    let temp_dir = tempfile::tempdir().unwrap();
    let into = temp_dir.path().join("image/artifacts");
    let module = smbios();
    let arguments = ["compile", text(&module), "--into", text(&into), "--json"];
    let json = virt_hook(&arguments).json();
    let artifact = &json["result"]["artifacts"][0];
    let path = artifact["artifact"].as_str().unwrap();
    let size = fs::metadata(path).unwrap().len();
    assert_eq!(artifact["bytes"], size);
    assert!(path.starts_with(text(&into)) && path.contains(artifact["sha256"].as_str().unwrap()));
    let repeated = virt_hook(&["compile", text(&module), "--into", text(&into)]).success_stdout();
    assert!(repeated.contains(".cwasm"), "{repeated}");
    assert_eq!(
        fs::read_dir(&into).unwrap().count(),
        1,
        "the same again is the same file"
    );
}

#[test]
fn file_that_is_no_hook_is_not_compiled() {
    let temp_dir = tempfile::tempdir().unwrap();
    let garbage = write(temp_dir.path(), "x.wasm", "garbage");
    let into = temp_dir.path().join("artifacts");
    let refused = virt_hook(&["compile", text(&garbage), "--into", text(&into)]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("x.wasm"), "{}", refused.err);
    assert!(!into.exists() || fs::read_dir(&into).unwrap().count() == 0);
}

/// Compiling takes long enough to press Ctrl-C, and to close the terminal. What runs in the background of a script ignores
/// Ctrl-C.
#[test]
fn signal_while_a_module_is_compiled_leaves_no_directory() {
    let module = smbios();
    let compile = ["compile", text(&module), "--into", "out"];
    let (usual, in_background) = ("--default-signal", "--ignore-signal=INT");
    for (started, arguments, signal, ended_by) in [
        (usual, &compile[..], Signal::INT, Some(Signal::INT)),
        (usual, &compile, Signal::TERM, Some(Signal::TERM)),
        (
            usual,
            &["inspect", text(&module)],
            Signal::INT,
            Some(Signal::INT),
        ),
        (
            usual,
            &["check", text(&module)],
            Signal::HUP,
            Some(Signal::HUP),
        ),
        (in_background, &compile, Signal::INT, None),
    ] {
        let temp_dir = tempfile::tempdir().unwrap();
        let path = |name: &str| temp_dir.path().join(name);
        fs::create_dir(path("tmp")).unwrap();
        let mut child = Command::new("env")
            .arg(started)
            .arg(program().get_program())
            .args(arguments)
            .current_dir(temp_dir.path())
            .env("TMPDIR", path("tmp"))
            .env("XDG_CACHE_HOME", path("cache"))
            .spawn()
            .unwrap();
        let is_empty = |directory: &Path| {
            fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
        };
        let watched = match path("out") {
            out if arguments == compile => out,
            _ => path("tmp"),
        };
        let deadline = Instant::now() + PROGRAM_TIMEOUT;
        while !watched.exists() || is_empty(&watched) {
            assert!(
                Instant::now() < deadline,
                "{arguments:?}: it makes no directory"
            );
            sleep(Duration::from_millis(2));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        let row = format!("{started} {arguments:?}: {status}");
        assert_eq!(status.signal(), ended_by.map(Signal::as_raw), "{row}");
        assert!(is_empty(&path("tmp")), "{row}");
        assert_eq!(is_empty(&watched), ended_by.is_some(), "{row}");
    }
}
