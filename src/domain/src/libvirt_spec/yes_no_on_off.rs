//! libvirt's text of boolean values.

/// `yes` or `no`.
pub(crate) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

/// `on` or `off`.
pub(crate) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.into()
}
