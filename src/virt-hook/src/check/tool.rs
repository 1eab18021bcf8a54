//! Programs of libvirt's, asked with a deadline.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Libvirt looks at QEMU the first time it is asked, which takes it seconds.
const DEADLINE: Duration = Duration::from_secs(60);
/// How often is looked.
const PAUSE: Duration = Duration::from_millis(5);
/// Of what a program says.
const MAX_SAID: u64 = 16 << 20;

/// What a program said.
pub(super) struct Said {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a program said nothing that can be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    /// It is not there.
    #[error("{0} is not installed")]
    Missing(&'static str),
    /// It took too long and was ended.
    #[error("{0} did not answer within {DEADLINE:?}")]
    Deadline(&'static str),
    /// The system says no.
    #[error("{0}: {1}")]
    Io(&'static str, io::Error),
}

/// Runs a program with nothing of this process's environment but where programs are; `home` is for
/// what it keeps.
pub(super) fn ask(
    program: &'static str,
    home: &Path,
    prepare: impl FnOnce(&mut Command),
) -> Result<Said, Silence> {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    prepare(&mut command);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Silence::Missing(program),
        _ => Silence::Io(program, error),
    })?;
    listen(program, Ended(child))
}

/// Killed and reaped when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn listen(program: &'static str, mut child: Ended) -> Result<Said, Silence> {
    let stdout = collect(child.0.stdout.take());
    let stderr = collect(child.0.stderr.take());
    let end = Instant::now() + DEADLINE;
    loop {
        match child.0.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() >= end => return Err(Silence::Deadline(program)),
            Ok(None) => thread::sleep(PAUSE),
            Err(error) => return Err(Silence::Io(program, error)),
        }
    }
    let text = |reader: thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Said {
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn collect(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(stream) = stream {
            // What came before an error is all there is to tell.
            let _ = stream.take(MAX_SAID).read_to_end(&mut said);
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let silence = ask("no-such-program", Path::new("/"), |_| {}).err();
        let text = silence.map(|silence| silence.to_string());
        assert_eq!(text.as_deref(), Some("no-such-program is not installed"));
    }
}
