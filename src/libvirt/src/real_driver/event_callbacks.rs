//! The callbacks that libvirt calls for events: each converts the C arguments into an [`Event`] and delivers it.
//!
//! A panic must not cross into C: it is caught here and logged.

use std::ffi::{c_char, c_int, c_ulonglong, c_void};

use virt_sys as sys;

use super::c_strings_and_errors::copy_string;
use super::callback_registry::CallbackKey;
use super::typed_param_conversion;
use crate::event::{CloseReason, Detail, Event, LifecycleEvent, WatchdogAction};
use crate::event_handlers::catch_panic;

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
            params: typed_param_conversion::copy(params, count),
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
