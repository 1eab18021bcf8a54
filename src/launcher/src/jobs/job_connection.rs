//! A job's own connection to libvirt.

use std::sync::Arc;
use std::time::Duration;

use libvirt::{Domain, HypervisorConnection};

use super::JobError;
use crate::blocking;
use crate::libvirt_client::Connect;

/// A connection and the domain on it. When it is dropped, the connection is closed on a thread for blocking calls.
pub(super) struct JobConnection {
    pub(super) hypervisor: Arc<dyn HypervisorConnection>,
    pub(super) domain: Arc<dyn Domain>,
    // The last field, so that it drops the last references.
    _drop_on_blocking_thread:
        DropOnBlockingThread<(Arc<dyn HypervisorConnection>, Arc<dyn Domain>)>,
}

impl JobConnection {
    /// Connects, and looks up the domain; `None` if there is no such domain. Blocking.
    pub(super) fn open(connect: &Connect, domain: &str) -> libvirt::Result<Option<JobConnection>> {
        let hypervisor = connect()?;
        let Some(domain) = hypervisor.lookup(domain)? else {
            return Ok(None);
        };
        Ok(Some(JobConnection {
            _drop_on_blocking_thread: DropOnBlockingThread(Some((
                Arc::clone(&hypervisor),
                Arc::clone(&domain),
            ))),
            hypervisor,
            domain,
        }))
    }
}

/// Calls libvirt about a job's domain, on a thread for blocking calls and with a timeout.
pub(super) async fn domain_call<T: Send + 'static>(
    domain: &Arc<dyn Domain>,
    what: &'static str,
    timeout: Duration,
    call: impl FnOnce(&dyn Domain) -> libvirt::Result<T> + Send + 'static,
) -> Result<T, JobError> {
    let domain = Arc::clone(domain);
    Ok(blocking::call(what, timeout, move || call(&*domain)).await??)
}

/// Drops its value on another thread, because closing a connection blocks when the daemon hangs, also after the job was
/// aborted or has failed.
struct DropOnBlockingThread<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Drop for DropOnBlockingThread<T> {
    fn drop(&mut self) {
        blocking::drop_connection(self.0.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    use super::*;

    /// Sends the thread on which it is dropped.
    struct DropThread(Sender<ThreadId>);

    impl Drop for DropThread {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[tokio::test]
    async fn connection_is_closed_on_another_thread_than_the_async_worker() {
        let (sender, receiver) = channel();
        drop(DropOnBlockingThread(Some(DropThread(sender))));
        let closed_on = tokio::task::spawn_blocking(move || receiver.recv().unwrap());
        assert_ne!(closed_on.await.unwrap(), thread::current().id());
    }
}
