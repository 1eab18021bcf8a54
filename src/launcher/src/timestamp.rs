//! Timestamps in the format of Kubernetes.

/// The current time, as RFC 3339 in UTC, to the second.
pub(crate) fn now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_has_no_fraction() {
        let text = now();
        assert_eq!(text.len(), "2026-11-21T11:55:54Z".len(), "{text}");
        assert!(text.ends_with('Z'));
    }
}
