//! Colours on terminals.

use std::io::{self, IsTerminal};

use anstyle::{AnsiColor, Effects};

/// When to colour standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Colour {
    /// Only on a terminal, and unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether text for people is coloured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    colour: bool,
}

impl Style {
    /// The style of standard output. `NO_COLOR` counts if it is not empty, as <https://no-color.org> says.
    pub(crate) fn for_stdout(colour: Colour) -> Self {
        let is_disabled = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => io::stdout().is_terminal() && !is_disabled(),
        };
        Self { colour }
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    pub(crate) fn doubtful(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint(anstyle::Style::new().effects(Effects::BOLD), text)
    }

    fn paint(self, style: anstyle::Style, text: &str) -> String {
        if self.colour {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_color_and_the_option_are_respected() {
        assert_eq!(Style::default().bad("x"), "x");
        assert_eq!(
            Style::for_stdout(Colour::Always).bad("x"),
            "\u{1b}[31mx\u{1b}[0m"
        );
        assert_eq!(Style::for_stdout(Colour::Never), Style::default());
    }
}
