//! The text of an error with its causes.

use std::error::Error;

/// An error with its causes, which the messages of some libraries omit. A cause that the text before it has already is not
/// repeated.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Failure {
        text: &'static str,
        #[source]
        cause: Option<Box<Failure>>,
    }

    #[test]
    fn cause_is_appended_unless_the_text_has_it() {
        let chain = |texts: &[&'static str]| {
            let chained = texts
                .iter()
                .rev()
                .fold(None, |cause, text| Some(Box::new(Failure { text, cause })));
            chained
                .map(|failure| error_chain(&*failure))
                .unwrap_or_default()
        };
        assert_eq!(
            chain(&["no connection", "refused"]),
            "no connection: refused"
        );
        let told = [
            "locking /run: not a directory; is it writable?",
            "not a directory",
        ];
        assert_eq!(chain(&told), told[0]);
    }
}
