//! Log lines on standard error that never wait for its reader.
//!
//! A pipe that nobody reads, such as that of a stalled container runtime, takes 64 KiB; then a write to it waits. So a
//! thread of its own writes, and the lines that wait for it have a limited size. Lines beyond it are dropped, and counted
//! in a line of their own once there is room again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes of lines wait for the reader.
pub const MAX_WAITING_BYTES: usize = 1 << 20;
/// What a line costs besides its bytes.
const LINE_BYTES: usize = 64;
/// The thread calls only `write`.
const STACK_BYTES: usize = 64 << 10;

/// The lines of one output, in order. A clone has the same lines.
#[derive(Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a line was added.
    added: Condvar,
    /// Notified when all lines are written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    dropped: u64,
    is_writing: bool,
}

impl Lines {
    /// Lines on standard error. `about_dropped` makes the line that says how many were dropped.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn to_stderr(about_dropped: impl Fn(u64) -> Vec<u8> + Send + 'static) -> io::Result<Lines> {
        Lines::to(io::stderr(), about_dropped)
    }

    /// Lines on another output.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn to(
        mut output: impl Write + Send + 'static,
        about_dropped: impl Fn(u64) -> Vec<u8> + Send + 'static,
    ) -> io::Result<Lines> {
        let lines = Lines(Arc::default());
        let shared = Arc::clone(&lines.0);
        let thread = std::thread::Builder::new().name("log".into());
        thread.stack_size(STACK_BYTES).spawn(move || {
            loop {
                let (line, dropped) = shared.next();
                // One call for each line, so that lines of other processes are not mixed with it. A failure could be
                // reported only on standard error.
                let _ = output.write_all(&line);
                if dropped > 0 {
                    let _ = output.write_all(&about_dropped(dropped));
                }
            }
        })?;
        Ok(lines)
    }

    /// Adds a line with its line end, or drops it if too many wait. Does not block.
    pub fn push(&self, line: Vec<u8>) {
        let mut state = self.0.lock();
        let bytes = state.waiting_bytes + line.len() + LINE_BYTES;
        if bytes > MAX_WAITING_BYTES {
            state.dropped += 1;
            return;
        }
        state.waiting_bytes = bytes;
        state.waiting.push_back(line);
        drop(state);
        self.0.added.notify_one();
    }

    /// Waits until all lines are written, at most for `timeout`. False if some are not.
    pub fn flush(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        let mut state = self.0.lock();
        while state.is_writing || !state.waiting.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next line. With the last one that waits, the number of lines that were dropped after it.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.lock();
        state.is_writing = false;
        loop {
            if let Some(line) = state.waiting.pop_front() {
                state.waiting_bytes -= line.len() + LINE_BYTES;
                state.is_writing = true;
                let dropped = match state.waiting.is_empty() {
                    true => std::mem::take(&mut state.dropped),
                    false => 0,
                };
                return (line, dropped);
            }
            self.written.notify_all();
            let added = self.added.wait(state);
            state = added.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// For libraries that write a line with one call. Their `flush` does not wait either: [`Lines::flush`] does.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn lines_and_pipe() -> (Lines, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let about_dropped = |count| format!("{count} dropped\n").into_bytes();
        (Lines::to(writer, about_dropped).unwrap(), reader)
    }

    /// Reads until all lines are written.
    fn read_all(lines: &Lines, mut pipe: PipeReader) -> Vec<String> {
        let reading = std::thread::spawn(move || {
            let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
            while !text.ends_with(b"last\n") {
                let count = pipe.read(&mut bytes).unwrap();
                text.extend_from_slice(&bytes[..count]);
            }
            String::from_utf8(text).unwrap()
        });
        assert!(lines.flush(TIMEOUT));
        lines.push(b"last\n".to_vec());
        reading.join().unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn lines_are_written_in_order() {
        let (lines, pipe) = lines_and_pipe();
        for number in 0..100 {
            lines.push(format!("{number}\n").into_bytes());
        }
        let expected: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        assert_eq!(read_all(&lines, pipe)[..100], expected);
    }

    #[test]
    fn lines_that_nobody_reads_are_dropped_and_counted() {
        let (lines, pipe) = lines_and_pipe();
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..5000 {
            lines.push(line.clone());
        }
        assert!(!lines.flush(Duration::from_millis(50)));
        let read = read_all(&lines, pipe);
        let written = read.iter().filter(|line| line.len() == 999).count();
        assert!(written > MAX_WAITING_BYTES / 2000, "{written}");
        let told = read.iter().find_map(|line| line.strip_suffix(" dropped"));
        assert_eq!(told, Some((5000 - written).to_string().as_str()));
    }

    #[test]
    fn closed_output_is_no_error() {
        let (lines, pipe) = lines_and_pipe();
        drop(pipe);
        lines.push(b"nobody\n".to_vec());
        assert!(lines.flush(TIMEOUT));
    }
}
