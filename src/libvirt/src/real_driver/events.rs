//! Registration of the event callbacks and the close callback of a connection.
//!
//! Each registration has a [`CallbackKey`], which libvirt passes to [`release`](release) once it no
//! longer calls the callback.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_ulonglong, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{mem, thread};

use virt_sys as sys;

use super::c_strings_and_errors::copy_string;
use super::{c_strings_and_errors, typed_param_list};
use crate::error::{Error, Result, code, origin};
use crate::event::{
    CloseReason, Detail, Event, EventHandlers, LifecycleEvent, WatchdogAction, catch_panic,
};

/// The type that registration takes for the callback of any event.
type GenericCallback = sys::virConnectDomainEventGenericCallback;

/// Registers all event callbacks for all domains of a connection, and returns their ids.
///
/// Events that the daemon does not offer are skipped. Registration fails if the daemon does not offer lifecycle events,
/// or the connection ends meanwhile.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register_events(
    connection: sys::virConnectPtr,
    handlers: &Arc<EventHandlers>,
) -> Result<Vec<c_int>> {
    let mut ids = Vec::new();
    for (event, callback) in callbacks_by_event() {
        // SAFETY: the caller vouches for the connection; `callbacks_by_event` pairs each event with a callback of
        // the signature that libvirt uses for it.
        let error = match unsafe { register_event(connection, event, callback, handlers) } {
            Ok(id) => {
                ids.push(id);
                continue;
            }
            Err(error) => error,
        };
        // SAFETY: the caller vouches for the connection.
        let alive = unsafe { sys::virConnectIsAlive(connection) } == 1;
        if event == sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE || !alive {
            // SAFETY: these are the connection's own, and no other code has their ids.
            unsafe { deregister_events(connection, &ids) };
            return Err(error);
        }
        tracing::debug!(event, %error, "the daemon does not offer an event");
    }
    Ok(ids)
}

/// # Safety
/// `connection` is open and `callback` is what libvirt calls for `event`.
unsafe fn register_event(
    connection: sys::virConnectPtr,
    event: sys::virDomainEventID,
    callback: GenericCallback,
    handlers: &Arc<EventHandlers>,
) -> Result<c_int> {
    let key = CallbackKey::register(handlers);
    // SAFETY: the connection is open, a null domain means all of them, and the opaque is a number
    // to `callback` and `release`.
    let id = c_strings_and_errors::check(unsafe {
        sys::virConnectDomainEventRegisterAny(
            connection,
            std::ptr::null_mut(),
            event.cast_signed(),
            callback,
            key.opaque(),
            Some(release),
        )
    });
    if id.is_err() {
        key.release();
    }
    id
}

/// Deregisters event callbacks. A connection does not end while it has callbacks.
///
/// # Safety
/// `connection` is an open connection, and `ids` are callbacks of it, deregistered once.
pub(super) unsafe fn deregister_events(connection: sys::virConnectPtr, ids: &[c_int]) {
    for &id in ids {
        // SAFETY: the caller vouches for both. On a connection that is dead this only fails.
        unsafe { sys::virConnectDomainEventDeregisterAny(connection, id) };
    }
}

/// Registers the close callback. The caller releases its key together with the connection: a driver inside this process
/// (libvirt's test driver) never does.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register_close(
    connection: sys::virConnectPtr,
    handlers: &Arc<EventHandlers>,
) -> Result<CallbackKey> {
    let key = CallbackKey::register(handlers);
    // SAFETY: the connection is open, and the opaque is a number to `closed` and `release`.
    let registered = c_strings_and_errors::check(unsafe {
        sys::virConnectRegisterCloseCallback(connection, Some(closed), key.opaque(), Some(release))
    });
    if registered.is_err() {
        key.release();
    }
    registered.map(|_| key)
}

/// Unregisters the close callback, before its connection is closed.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn unregister_close(connection: sys::virConnectPtr) {
    // SAFETY: the caller vouches for the connection. Without a close callback the call only fails.
    unsafe { sys::virConnectUnregisterCloseCallback(connection, Some(closed)) };
}

/// The events to register for, each with its callback.
fn callbacks_by_event() -> [(sys::virDomainEventID, GenericCallback); 11] {
    macro_rules! generic {
        ($callback:ident: $kind:ty) => {{
            let typed: $kind = Some($callback);
            // SAFETY: both are optional C function pointers; libvirt casts it back to `$kind`
            // for the event that the line names before it calls it.
            unsafe { mem::transmute::<$kind, GenericCallback>(typed) }
        }};
    }
    [
        (
            sys::VIR_DOMAIN_EVENT_ID_LIFECYCLE,
            generic!(lifecycle: sys::virConnectDomainEventCallback),
        ),
        (sys::VIR_DOMAIN_EVENT_ID_REBOOT, Some(reboot)),
        (
            sys::VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
            generic!(agent_lifecycle: sys::virConnectDomainEventAgentLifecycleCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
            generic!(device_added: sys::virConnectDomainEventDeviceAddedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
            generic!(device_removed: sys::virConnectDomainEventDeviceRemovedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED,
            generic!(device_removal_failed: sys::virConnectDomainEventDeviceRemovalFailedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_JOB_COMPLETED,
            generic!(job_completed: sys::virConnectDomainEventJobCompletedCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION,
            generic!(migration_iteration: sys::virConnectDomainEventMigrationIterationCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON,
            generic!(io_error: sys::virConnectDomainEventIOErrorReasonCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_WATCHDOG,
            generic!(watchdog: sys::virConnectDomainEventWatchdogCallback),
        ),
        (
            sys::VIR_DOMAIN_EVENT_ID_MEMORY_DEVICE_SIZE_CHANGE,
            generic!(memory_device_size: sys::virConnectDomainEventMemoryDeviceSizeChangeCallback),
        ),
    ]
}

// The callbacks that libvirt calls for events: each converts the C arguments into an [`Event`] and delivers it.
//
// A panic must not cross into C: it is caught here and logged.

/// Builds an event and passes it to the handlers of the registration. Panics are logged.
fn deliver(opaque: *mut c_void, event: impl FnOnce() -> Event) {
    catch_panic(|| {
        // There are none if the registration ended just before libvirt called the callback.
        if let Some(handlers) = CallbackKey::from_opaque(opaque).handlers() {
            handlers.publish(&event());
        }
    });
}

/// The domain's name.
///
/// # Safety
/// `domain` is a domain that libvirt passes to the callback.
unsafe fn domain_name(domain: sys::virDomainPtr) -> String {
    // SAFETY: the domain is valid during the callback, and its name lives as long as it does.
    unsafe { copy_string(sys::virDomainGetName(domain)) }
}

/// The free function of a registration: libvirt no longer calls its callback.
pub(super) unsafe extern "C" fn release(opaque: *mut c_void) {
    CallbackKey::from_opaque(opaque).release();
}

// For every callback below, SAFETY: the domain and the strings (each null or NUL-terminated) that libvirt passes are
// valid during the call, and `opaque` is that of the registration.

pub(super) unsafe extern "C" fn closed(_: sys::virConnectPtr, reason: c_int, opaque: *mut c_void) {
    deliver(opaque, || Event::ConnectionClosed {
        reason: CloseReason::decode(reason),
    });
}

pub(super) unsafe extern "C" fn lifecycle(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    event: c_int,
    detail: c_int,
    opaque: *mut c_void,
) -> c_int {
    let event = LifecycleEvent::decode(event);
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::Lifecycle {
            domain: domain_name(domain),
            event,
            detail: Detail::decode(event, detail),
        });
    }
    0
}

pub(super) unsafe extern "C" fn reboot(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::Reboot {
            domain: domain_name(domain),
        });
    }
}

pub(super) unsafe extern "C" fn agent_lifecycle(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    state: c_int,
    _reason: c_int,
    opaque: *mut c_void,
) {
    const CONNECTED: c_int =
        sys::VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED.cast_signed();
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::AgentLifecycle {
            domain: domain_name(domain),
            connected: state == CONNECTED,
        });
    }
}

pub(super) unsafe extern "C" fn device_added(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceAdded {
            domain: domain_name(domain),
            alias: copy_string(alias),
        });
    }
}

pub(super) unsafe extern "C" fn device_removed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceRemoved {
            domain: domain_name(domain),
            alias: copy_string(alias),
        });
    }
}

pub(super) unsafe extern "C" fn device_removal_failed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceRemovalFailed {
            domain: domain_name(domain),
            alias: copy_string(alias),
        });
    }
}

pub(super) unsafe extern "C" fn job_completed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    params: sys::virTypedParameterPtr,
    count: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above; the parameters are `count` initialised ones.
    unsafe {
        deliver(opaque, || Event::JobCompleted {
            domain: domain_name(domain),
            params: typed_param_list::copy(params, count),
        });
    }
}

pub(super) unsafe extern "C" fn migration_iteration(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    iteration: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::MigrationIteration {
            domain: domain_name(domain),
            iteration,
        });
    }
}

pub(super) unsafe extern "C" fn io_error(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    path: *const c_char,
    alias: *const c_char,
    action: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::IoError {
            domain: domain_name(domain),
            pauses_guest: action.cast_unsigned() == sys::VIR_DOMAIN_EVENT_IO_ERROR_PAUSE,
            alias: copy_string(alias),
            path: copy_string(path),
            reason: copy_string(reason),
        });
    }
}

pub(super) unsafe extern "C" fn watchdog(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    action: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::Watchdog {
            domain: domain_name(domain),
            action: WatchdogAction::decode(action),
        });
    }
}

pub(super) unsafe extern "C" fn memory_device_size(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    kib: c_ulonglong,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::MemoryDeviceSize {
            domain: domain_name(domain),
            alias: copy_string(alias),
            kib,
        });
    }
}

// Registry of the event handlers that libvirt's callbacks deliver to, by number.
//
// The opaque value that libvirt stores for a callback is a number instead of a pointer. When a registration fails (the
// daemon has just died) while another event of the same connection is being delivered, libvirt returns the failure, so
// that the caller still owns the opaque value, and calls the free function later all the same
// (`virObjectEventStateDeregisterID` only marks the callback then). A pointer would be freed twice; a number that is
// no longer registered refers to nothing.

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    last_key: 0,
    entries: BTreeMap::new(),
});

struct Registry {
    last_key: usize,
    entries: BTreeMap<usize, Arc<EventHandlers>>,
}

/// The number of a registration. Numbers are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallbackKey(usize);

impl CallbackKey {
    /// Registers the handlers of a connection until the key is released.
    pub(super) fn register(handlers: &Arc<EventHandlers>) -> CallbackKey {
        let mut registry = lock();
        registry.last_key += 1;
        let key = registry.last_key;
        registry.entries.insert(key, Arc::clone(handlers));
        CallbackKey(key)
    }

    /// The number as an opaque value for libvirt. It must not be dereferenced.
    pub(super) fn opaque(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0)
    }

    /// The number in the opaque value that libvirt passes to a callback.
    pub(super) fn from_opaque(opaque: *mut c_void) -> CallbackKey {
        CallbackKey(opaque.addr())
    }

    /// The handlers; `None` if the key was released.
    pub(super) fn handlers(self) -> Option<Arc<EventHandlers>> {
        lock().entries.get(&self.0).map(Arc::clone)
    }

    /// Removes the registration. Further calls have no effect.
    pub(super) fn release(self) {
        let handlers = lock().entries.remove(&self.0);
        // The values that a handler owns (such as a channel's end) may panic when they are dropped.
        catch_panic(|| drop(handlers));
    }
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

// libvirt's event loop, which one thread runs for the life of the process.
//
// The event loop must be registered before the first connection is opened: otherwise that connection neither delivers
// events nor answers keepalive messages.

/// Stack size of the thread in bytes. The loop needs little, and event handlers only send to a channel.
const STACK_SIZE: usize = 256 * 1024;
/// Pause after an iteration that failed, so that a loop that always fails at once does not use up a CPU.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

static STARTED: OnceLock<Result<()>> = OnceLock::new();

/// Starts the event loop on the first call. Later calls return the result of the first.
pub(super) fn start_event_loop_once() -> Result<()> {
    STARTED.get_or_init(start).clone()
}

fn start() -> Result<()> {
    c_strings_and_errors::disable_error_output();
    // SAFETY: no arguments; initialising more than once is allowed.
    c_strings_and_errors::check(unsafe { sys::virInitialize() })?;
    // SAFETY: no arguments; runs once (OnceLock) and before any connection is opened.
    c_strings_and_errors::check(unsafe { sys::virEventRegisterDefaultImpl() })?;
    thread::Builder::new()
        .name("libvirt-events".into())
        .stack_size(STACK_SIZE)
        .spawn(run)
        .map(drop)
        .map_err(|error| Error {
            code: code::SYSTEM_ERROR,
            domain: origin::NONE,
            message: format!("cannot start the thread of libvirt's event loop: {error}"),
        })
}

fn run() {
    loop {
        // SAFETY: the default implementation is registered, and only this thread runs it.
        if let Err(error) = c_strings_and_errors::check(unsafe { sys::virEventRunDefaultImpl() }) {
            tracing::warn!(%error, "libvirt's event loop failed a turn");
            thread::sleep(PAUSE_AFTER_FAILURE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_release_of_a_key_has_no_effect() {
        let handlers = Arc::<EventHandlers>::default();
        let key = CallbackKey::register(&handlers);
        let other = CallbackKey::register(&handlers);
        assert_ne!(key, other);
        let returned = CallbackKey::from_opaque(key.opaque());
        assert_eq!(returned, key);
        assert!(returned.handlers().is_some());
        returned.release();
        returned.release();
        assert!(key.handlers().is_none() && other.handlers().is_some());
        other.release();
        assert_eq!(Arc::strong_count(&handlers), 1);
    }
}
