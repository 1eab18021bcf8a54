//! libvirt's callbacks, turned into [`Event`]s.
//!
//! Each registration has a [`CallbackKey`], which libvirt passes to [`release`] once the callback can
//! no longer be called. A panic must not cross into C: it is caught here and logged.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};
use std::mem;
use std::sync::Arc;

use virt_sys as sys;

use super::c_strings_and_errors::{self, copy_string};
use super::callback_registry::CallbackKey;
use super::typed_params;
use crate::error::Result;
use crate::event::{CloseReason, Detail, Event, LifecycleEvent, WatchdogAction};
use crate::subscribers::{Subscribers, catch_panic};

type Generic = sys::virConnectDomainEventGenericCallback;

/// Registers every callback for all domains of a connection and returns their ids.
///
/// Rarer events that the daemon does not offer are left out. Without lifecycle events, or when the
/// connection ends meanwhile, registration fails.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register(
    connection: sys::virConnectPtr,
    subscribers: &Arc<Subscribers>,
) -> Result<Vec<c_int>> {
    let mut ids = Vec::new();
    for (event, callback) in table() {
        // SAFETY: the caller vouches for the connection; the table pairs each event with the
        // signature that libvirt calls it by.
        let error = match unsafe { register_one(connection, event, callback, subscribers) } {
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
            unsafe { deregister(connection, &ids) };
            return Err(error);
        }
        tracing::debug!(event, %error, "the daemon does not offer an event");
    }
    Ok(ids)
}

/// # Safety
/// `connection` is open and `callback` is what libvirt calls for `event`.
unsafe fn register_one(
    connection: sys::virConnectPtr,
    event: sys::virDomainEventID,
    callback: Generic,
    subscribers: &Arc<Subscribers>,
) -> Result<c_int> {
    let key = CallbackKey::register(subscribers);
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

/// Deregisters event callbacks. A connection cannot end while it has any.
///
/// # Safety
/// `connection` is an open connection, and `ids` are callbacks of it, deregistered once.
pub(super) unsafe fn deregister(connection: sys::virConnectPtr, ids: &[c_int]) {
    for &id in ids {
        // SAFETY: the caller vouches for both. On a connection that is dead this only fails.
        unsafe { sys::virConnectDomainEventDeregisterAny(connection, id) };
    }
}

/// Registers the close callback. Its key is to be released with the connection: a driver inside this
/// process (libvirt's test driver) never releases it.
///
/// # Safety
/// `connection` is an open connection.
pub(super) unsafe fn register_close(
    connection: sys::virConnectPtr,
    subscribers: &Arc<Subscribers>,
) -> Result<CallbackKey> {
    let key = CallbackKey::register(subscribers);
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
    // SAFETY: the caller vouches for the connection. It may never have had one: that only fails.
    unsafe { sys::virConnectUnregisterCloseCallback(connection, Some(closed)) };
}

/// Every event that is listened to, with its callback in the form that registration takes.
fn table() -> [(sys::virDomainEventID, Generic); 11] {
    macro_rules! generic {
        ($callback:ident: $kind:ty) => {{
            let typed: $kind = Some($callback);
            // SAFETY: both are optional C function pointers; libvirt casts it back to `$kind`
            // for the event that the line names before it calls it.
            unsafe { mem::transmute::<$kind, Generic>(typed) }
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

/// Builds an event and delivers it; a panic in either is logged.
fn deliver(opaque: *mut c_void, event: impl FnOnce() -> Event) {
    catch_panic(|| {
        // None: a callback that was on its way when its registration ended.
        if let Some(subscribers) = CallbackKey::from_opaque(opaque).subscribers() {
            subscribers.publish(&event());
        }
    });
}

/// The domain's name.
///
/// # Safety
/// `domain` is a domain that libvirt lends to the callback.
unsafe fn name(domain: sys::virDomainPtr) -> String {
    // SAFETY: the domain is valid during the callback, and its name lives as long as it does.
    unsafe { copy_string(sys::virDomainGetName(domain)) }
}

/// libvirt no longer uses a registration.
unsafe extern "C" fn release(opaque: *mut c_void) {
    CallbackKey::from_opaque(opaque).release();
}

// For every callback below, SAFETY: libvirt lends the domain and the strings (each null or
// NUL-terminated) for the time of the call, and passes the `opaque` of the registration.

unsafe extern "C" fn closed(_: sys::virConnectPtr, reason: c_int, opaque: *mut c_void) {
    deliver(opaque, || Event::ConnectionClosed {
        reason: CloseReason::decode(reason),
    });
}

unsafe extern "C" fn lifecycle(
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
            domain: name(domain),
            event,
            detail: Detail::decode(event, detail),
        });
    }
    0
}

unsafe extern "C" fn reboot(_: sys::virConnectPtr, domain: sys::virDomainPtr, opaque: *mut c_void) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::Reboot {
            domain: name(domain),
        });
    }
}

unsafe extern "C" fn agent_lifecycle(
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
            domain: name(domain),
            connected: state == CONNECTED,
        });
    }
}

unsafe extern "C" fn device_added(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceAdded {
            domain: name(domain),
            alias: copy_string(alias),
        });
    }
}

unsafe extern "C" fn device_removed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceRemoved {
            domain: name(domain),
            alias: copy_string(alias),
        });
    }
}

unsafe extern "C" fn device_removal_failed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::DeviceRemovalFailed {
            domain: name(domain),
            alias: copy_string(alias),
        });
    }
}

unsafe extern "C" fn job_completed(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    params: sys::virTypedParameterPtr,
    count: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above; the parameters are `count` initialised ones.
    unsafe {
        deliver(opaque, || Event::JobCompleted {
            domain: name(domain),
            params: typed_params::copy(params, count),
        });
    }
}

unsafe extern "C" fn migration_iteration(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    iteration: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::MigrationIteration {
            domain: name(domain),
            iteration,
        });
    }
}

unsafe extern "C" fn io_error(
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
            domain: name(domain),
            pauses_guest: action.cast_unsigned() == sys::VIR_DOMAIN_EVENT_IO_ERROR_PAUSE,
            alias: copy_string(alias),
            path: copy_string(path),
            reason: copy_string(reason),
        });
    }
}

unsafe extern "C" fn watchdog(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    action: c_int,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::Watchdog {
            domain: name(domain),
            action: WatchdogAction::decode(action),
        });
    }
}

unsafe extern "C" fn memory_device_size(
    _: sys::virConnectPtr,
    domain: sys::virDomainPtr,
    alias: *const c_char,
    kib: c_ulonglong,
    opaque: *mut c_void,
) {
    // SAFETY: see above.
    unsafe {
        deliver(opaque, || Event::MemoryDeviceSize {
            domain: name(domain),
            alias: copy_string(alias),
            kib,
        });
    }
}
