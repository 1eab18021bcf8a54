//! libvirt's spelling of truth values.

/// libvirt's `yes` and `no`.
pub(crate) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

/// libvirt's `on` and `off`.
pub(crate) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.into()
}
