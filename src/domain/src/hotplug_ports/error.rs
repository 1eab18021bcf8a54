//! Errors of reserving ports for hotplug.

/// Why ports cannot be reserved.
#[derive(Debug, thiserror::Error)]
pub enum HotplugPortsError {
    /// The annotation is not a number, or is too large.
    #[error(
        "invalid {annotation} annotation value {value:?}: it must be a number of interfaces, at most {most}"
    )]
    Annotation {
        /// The annotation's name.
        annotation: &'static str,
        /// The annotation's value.
        value: String,
        /// The maximum.
        most: usize,
    },
    /// The domain is not well-formed XML.
    #[error("adding ports for hotplug: {0}")]
    Xml(#[from] domain_xml::ParseError),
    /// The domain's memory is not a number with a unit of memory.
    #[error(
        "adding ports for hotplug: <memory unit={unit:?}>{amount}</memory> is not an amount of memory"
    )]
    Memory {
        /// The element's text.
        amount: String,
        /// The element's unit.
        unit: String,
    },
}
