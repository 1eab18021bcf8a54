//! Runs cargo and rustc, with a timeout.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{BUILD_TIMEOUT, BuildError};

/// A tool of the toolchain that runs this test, without the flags meant for the test itself.
pub(super) fn program(variable: &str, name: &str, dir: &Path) -> Command {
    let path = std::env::var_os(variable).unwrap_or_else(|| OsString::from(name));
    let mut command = Command::new(path);
    command.current_dir(dir);
    for flags in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_BUILD_TARGET",
        "CARGO_BUILD_RUSTFLAGS",
    ] {
        command.env_remove(flags);
    }
    command
}

pub(super) struct Output {
    pub(super) success: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

pub(super) fn run(mut command: Command) -> Result<Output, BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| BuildError::Run {
        program: program.clone(),
        source,
    };
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (
        read_in_background(child.stdout.take()),
        read_in_background(child.stderr.take()),
    );
    let deadline = Instant::now() + BUILD_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(BuildError::Deadline { program });
        }
        thread::sleep(Duration::from_millis(20));
    };
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Output {
        success: status.success(),
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn read_in_background(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // After a read error, the output so far is used.
            let _ = stream.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
