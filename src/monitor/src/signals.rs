//! Signals as something to wait for: each handler writes into a socket pair.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;

/// Why waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A child changed its state, perhaps several.
    Child,
    /// HUP, INT, TERM or QUIT.
    Terminate,
    /// The time is up.
    Timeout,
}

/// The signals the monitor listens to.
pub(crate) struct Signals {
    terminate: UnixStream,
    child: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn register() -> io::Result<Self> {
        let terminate = on(&[SIGHUP, SIGINT, SIGTERM, SIGQUIT])?;
        Ok(Self {
            terminate,
            child: on(&[SIGCHLD])?,
        })
    }

    /// Waits for a signal, those that came before included, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Wake {
        loop {
            if drain(&self.child) {
                return Wake::Child;
            }
            if drain(&self.terminate) {
                return Wake::Terminate;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Wake::Timeout;
            }
            self.poll(left);
        }
    }

    fn poll(&self, left: Option<Duration>) {
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut sources = [
            PollFd::new(&self.terminate, PollFlags::IN),
            PollFd::new(&self.child, PollFlags::IN),
        ];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // Without poll there is only looking again and again.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn on(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Whether anything came.
fn drain(mut stream: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut came = false;
    while matches!(stream.read(&mut bytes), Ok(count) if count > 0) {
        came = true;
    }
    came
}
