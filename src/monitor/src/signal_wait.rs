//! Waiting for signals: each handler writes into a socket pair.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::pipe;

/// The termination signals.
const TERMINATE: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
];

/// Runs `spawn` with the termination signals blocked. The child inherits the mask over exec, so
/// that a signal sent to it before its handlers exist stays pending instead of killing it; it
/// unblocks them itself. The monitor has one thread, and receives pending signals afterwards.
pub(crate) fn with_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let signals = SigSet::from_iter(TERMINATE);
    // Fails only for arguments that cannot occur here.
    let _ = signals.thread_block();
    let spawned = spawn();
    let _ = signals.thread_unblock();
    spawned
}

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
        let terminate = pipe_for(&TERMINATE.map(|signal| signal as i32))?;
        Ok(Self {
            terminate,
            child: pipe_for(&[SIGCHLD])?,
        })
    }

    /// Waits for a signal (pending ones included) or until `deadline`.
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
            // Without poll, check again at intervals.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn pipe_for(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Reads all pending bytes; whether there were any.
fn drain(mut stream: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut received = false;
    while matches!(stream.read(&mut bytes), Ok(count) if count > 0) {
        received = true;
    }
    received
}
