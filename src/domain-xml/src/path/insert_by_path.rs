//! Adds elements by path: once, and at the position that libvirt's schema requires.

use super::PathError;
use crate::Element;

/// Why an element is not inserted by path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// The path is none, or names no definite element.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path does not select what was added for it, so that a second call would add it again.
    #[error("`{path}` does not select {element}, which was added for it")]
    #[non_exhaustive]
    NotSelected {
        /// The path.
        path: String,
        /// What was added, as XML.
        element: String,
    },
}

/// The few elements whose children have a fixed order in libvirt's schema (libvirt 11, domaincommon.rng):
/// parent and ordered children.
const ORDERS: [(&str, &[&str]); 6] = [
    ("resource", &["partition", "fibrechannel"]),
    ("model", &["acceleration", "resolution"]),
    ("source", &["vendor", "product", "address"]),
    ("source", &["slices", "dataStore"]),
    ("source", &["reconnect", "clipboard", "mouse", "seclabel"]),
    ("launchSecurity", &["cbitpos", "reducedPhysBits"]),
];

impl Element {
    /// Adds `child` to the element at `parent`, which is created if it is missing: at the position that libvirt's
    /// schema requires, or as the last child. An empty path is this element.
    ///
    /// # Errors
    /// As [`Element::ensure`].
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><resource><fibrechannel appid='a'/></resource></domain>")?;
    /// domain.insert("resource", Element::new("partition").with_text("/machine"))?;
    /// assert_eq!(
    ///     domain.render(),
    ///     "<domain><resource><partition>/machine</partition><fibrechannel appid='a'/></resource></domain>"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&mut self, parent: &str, child: Element) -> Result<&mut Element, PathError> {
        let parent = if parent.is_empty() {
            self
        } else {
            self.ensure(parent)?
        };
        let known = |(name, children): &&(&str, &[&str])| {
            parent.is(name) && children.contains(&child.canonical_name())
        };
        let order = ORDERS.iter().find(known).map(|(_, order)| *order);
        Ok(match order {
            Some(order) => parent.insert_ordered(child, order),
            None => parent.append(child),
        })
    }

    /// Adds an element unless the path already selects one. Returns whether it was added. Since the path then selects
    /// the element, a second run of the hook adds nothing.
    ///
    /// # Errors
    /// As [`Element::ensure`] for the path without its last step; and if the path does not select what was added.
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><devices/></domain>")?;
    /// let watchdog = || Element::new("watchdog").with_attr("model", "itco").with_attr("action", "reset");
    /// assert!(domain.insert_if_absent("devices/watchdog[@model='itco']", watchdog)?);
    /// assert!(!domain.insert_if_absent("devices/watchdog[@model='itco']", watchdog)?);
    /// assert_eq!(domain.find_all("devices/watchdog")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert_if_absent(
        &mut self,
        path: &str,
        make: impl FnOnce() -> Element,
    ) -> Result<bool, InsertError> {
        if self.find(path)?.is_some() {
            return Ok(false);
        }
        let (parent, _) = split_last(path);
        let made = self.insert(parent, make())?.render();
        match self.find(path)? {
            Some(_) => Ok(true),
            None => Err(InsertError::NotSelected {
                path: path.to_owned(),
                element: made,
            }),
        }
    }

    /// Sets the attribute or text at the path unless it has a value. Returns whether it was set.
    ///
    /// # Errors
    /// As [`Element::set`].
    ///
    /// ```
    /// # use domain_xml::Element;
    /// let mut domain = Element::parse("<domain><cpu mode='host-model'/></domain>")?;
    /// assert!(!domain.set_if_absent("cpu/@mode", "host-passthrough")?);
    /// assert!(domain.set_if_absent("cpu/@migratable", "on")?);
    /// assert_eq!(domain.render(), "<domain><cpu mode='host-model' migratable='on'/></domain>");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_if_absent(&mut self, path: &str, value: impl AsRef<str>) -> Result<bool, PathError> {
        let is_absent = self.value(path)?.is_none();
        if is_absent {
            self.set(path, value)?;
        }
        Ok(is_absent)
    }
}

/// A path without its last step, and that step. Slashes in predicates are not separators.
fn split_last(path: &str) -> (&str, &str) {
    let (mut depth, mut quote, mut last) = (0_usize, None, None);
    for (at, c) in path.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, '/') if depth == 0 => last = Some(at),
            _ => {}
        }
    }
    last.map_or(("", path), |at| (&path[..at], &path[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_is_found_behind_predicates() {
        assert_eq!(split_last("a/b[c/@d='x/]y']"), ("a", "b[c/@d='x/]y']"));
        assert_eq!(split_last("/domain/devices/x"), ("/domain/devices", "x"));
        assert_eq!(split_last("x"), ("", "x"));
    }

    #[test]
    fn an_element_that_its_path_would_not_find_again_is_an_error() {
        let mut domain = Element::new("domain");
        let error = domain
            .insert_if_absent("devices/disk[target/@dev='vdz']", || Element::new("disk"))
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("`devices/disk[target/@dev='vdz']` does not select <disk/>"),
            "{error}"
        );
    }

    #[test]
    fn insert_keeps_the_order_of_the_schema() {
        let mut domain = Element::parse(
            "<domain><hostdev><source><product id='1'/></source></hostdev></domain>",
        )
        .unwrap();
        domain
            .insert("hostdev/source", Element::new("address"))
            .unwrap();
        domain
            .insert("hostdev/source", Element::new("vendor"))
            .unwrap();
        domain
            .insert("hostdev/source", Element::new("other"))
            .unwrap();
        assert_eq!(
            domain.render(),
            "<domain><hostdev><source><vendor/><product id='1'/><address/><other/></source></hostdev></domain>"
        );
    }
}
