//! domain-xml.
