//! Waits for signals, whose handlers write to socket pairs.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::SIGCHLD;
use signal_hook::low_level::pipe;

/// The termination signals.
const TERMINATION_SIGNALS: [Signal; 4] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
];

/// Runs `spawn` with the termination signals blocked. The child inherits the mask over exec and unblocks the signals
/// itself: a signal that is sent before its handlers exist stays pending instead of killing it. The monitor has only
/// this thread, and receives its own pending signals afterwards.
pub(crate) fn with_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let signals = SigSet::from_iter(TERMINATION_SIGNALS);
    // Fails only for an invalid argument, which this is not.
    let _ = signals.thread_block();
    let spawned = spawn();
    let _ = signals.thread_unblock();
    spawned
}

/// What has ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitResult {
    /// One or more children have changed their state.
    Child,
    /// A termination signal has arrived.
    Terminate,
    /// The deadline has passed.
    Timeout,
}

/// The reading ends of the socket pairs.
pub(crate) struct Signals {
    terminate: UnixStream,
    child: UnixStream,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn register() -> io::Result<Self> {
        let terminate = pipe_for(&TERMINATION_SIGNALS.map(|signal| signal as i32))?;
        Ok(Self {
            terminate,
            child: pipe_for(&[SIGCHLD])?,
        })
    }

    /// Waits for a signal or until `deadline`. Returns at once if a signal has arrived since the last call.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> WaitResult {
        loop {
            if drain(&self.child) {
                return WaitResult::Child;
            }
            if drain(&self.terminate) {
                return WaitResult::Terminate;
            }
            let remaining =
                deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if remaining == Some(Duration::ZERO) {
                return WaitResult::Timeout;
            }
            self.poll(remaining);
        }
    }

    fn poll(&self, remaining: Option<Duration>) {
        let timeout = remaining.and_then(|remaining| Timespec::try_from(remaining).ok());
        let mut sources = [
            PollFd::new(&self.terminate, PollFlags::IN),
            PollFd::new(&self.child, PollFlags::IN),
        ];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // If polling fails, the signals are checked at intervals.
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Installs handlers for the signals, and returns the end to read from.
fn pipe_for(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Reads all pending bytes; false if there were none.
fn drain(mut stream: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut received = false;
    while matches!(stream.read(&mut bytes), Ok(count) if count > 0) {
        received = true;
    }
    received
}
