//! What must have held for the demo to succeed.

/// One fact: what must hold, and what was found where it does not.
struct Check {
    what: String,
    fault: Option<String>,
}

/// All facts, in the order they were looked at.
#[derive(Default)]
pub(crate) struct Checks(Vec<Check>);

impl Checks {
    /// Notes whether `what` held; `found` is asked only when it did not.
    pub(crate) fn hold(&mut self, what: &str, held: bool, found: impl FnOnce() -> String) {
        self.0.push(Check {
            what: what.to_owned(),
            fault: (!held).then(found),
        });
    }

    /// Notes an outcome; an error is the fault.
    pub(crate) fn succeed<T>(&mut self, what: &str, outcome: anyhow::Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => {
                self.hold(what, true, String::new);
                Some(value)
            }
            Err(error) => {
                self.hold(what, false, || format!("{error:#}"));
                None
            }
        }
    }

    /// Prints the list; true when everything held.
    pub(crate) fn print(&self) -> bool {
        println!("\nChecks");
        for Check { what, fault } in &self.0 {
            match fault {
                None => println!("  [ok]     {what}"),
                Some(found) => println!(
                    "  [FAILED] {what}\n           {}",
                    found.replace('\n', "\n           ")
                ),
            }
        }
        let failed = self.0.iter().filter(|check| check.fault.is_some()).count();
        println!("{} of {} held", self.0.len() - failed, self.0.len());
        failed == 0 && !self.0.is_empty()
    }
}
