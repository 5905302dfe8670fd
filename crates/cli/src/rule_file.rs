//! A file of rules: a whole document, or a list of one kind as Sentinel writes
//! it.

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use flowgate::{
    Clock, Dialect, Engine, Fault, Kinds, LoadOptions, LoadReport, ManualClock, OnInvalid,
    RuleError, RuleSet, Settings,
};

use crate::failure::Failure;
use crate::input::Input;
use crate::snippet::{self, Severity};

/// The kind of a list that neither an option nor its file's name tells.
const KIND_DEFAULT: &str = "flow";

/// A file of rules that was read, and not yet understood.
pub(crate) struct RuleFile {
    pub(crate) name: String,
    bytes: Vec<u8>,
    pub(crate) form: Form,
    options: LoadOptions,
}

/// Whose fields a rule file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DialectArg {
    /// Sentinel's for Java, and Flowgate's own.
    Sentinel,
    /// sentinel-golang's.
    Golang,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `{"flow": [...], "degrade": [...]}`
    Document,
    /// `[...]`
    List { kind: &'static str, from: KindFrom },
}

/// Who says of which kind a list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KindFrom {
    Option,
    FileName,
    Default,
}

impl RuleFile {
    pub(crate) fn read(
        input: &Input,
        kind: Option<&str>,
        dialect: Option<DialectArg>,
    ) -> Result<Self, Failure> {
        let bytes = input.read_all()?;
        let name = input.name();
        let file_name = input.path().and_then(|path| path.file_name());
        let file_name = file_name.map(|name| name.to_string_lossy());
        let form = Form::of(&bytes, kind, file_name.as_deref().unwrap_or_default());
        if let Form::List { kind, .. } = form
            && text(&bytes).starts_with(b"{")
        {
            return Err(Failure::NoList { name, kind });
        }
        let options = LoadOptions {
            on_invalid: OnInvalid::Refuse,
            dialect: dialect.map(Dialect::from),
        };
        Ok(RuleFile {
            name,
            bytes,
            form,
            options,
        })
    }

    pub(crate) fn load(&self, engine: &Engine) -> Result<LoadReport, RuleError> {
        match self.form {
            Form::Document => engine.load_document_with(&self.bytes, self.options),
            Form::List { kind, .. } => engine.load_json_with(kind, &self.bytes, self.options),
        }
    }

    /// Its rules, by themselves.
    pub(crate) fn rules(&self) -> Result<(RuleSet, LoadReport), RuleError> {
        let (none, settings) = (RuleSet::default(), Settings::default());
        match self.form {
            Form::Document => none.with_document(&self.bytes, &settings, self.options),
            Form::List { kind, .. } => none.with_list(kind, &self.bytes, &settings, self.options),
        }
    }

    /// Shows remarks on standard error.
    pub(crate) fn show(&self, severity: Severity, remarks: &[Fault]) {
        let text = snippet::render(severity, remarks, &self.name, &self.bytes);
        anstream::eprint!("{text}");
    }
}

/// What is in a file, from its first character on.
fn text(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes);
    bytes.trim_ascii_start()
}

impl Form {
    fn of(bytes: &[u8], kind: Option<&str>, file_name: &str) -> Self {
        let named = |name: &str| kinds().find(|kind| *kind == name);
        if let Some(kind) = kind.and_then(named) {
            let from = KindFrom::Option;
            return Form::List { kind, from };
        }
        if !text(bytes).starts_with(b"[") {
            return Form::Document;
        }
        let file_name = file_name.to_lowercase();
        match kinds().find(|kind| file_name.starts_with(&kind.to_lowercase())) {
            Some(kind) => Form::List {
                kind,
                from: KindFrom::FileName,
            },
            None => Form::List {
                kind: KIND_DEFAULT,
                from: KindFrom::Default,
            },
        }
    }

    /// What was assumed, as a sentence; `None` if nothing had to be.
    pub(crate) fn assumption(self) -> Option<String> {
        let Form::List { kind, from } = self else {
            return None;
        };
        let because = match from {
            KindFrom::Option => return None,
            KindFrom::FileName => "by its file name",
            KindFrom::Default => "as nothing says otherwise",
        };
        Some(format!("a list; read as {kind} rules {because} (--kind)"))
    }
}

/// The names of all kinds of rules.
pub(crate) fn kinds() -> impl Iterator<Item = &'static str> {
    Kinds::standard().specs().into_iter().map(|kind| kind.name)
}

/// Takes the name of a kind as an option's value.
pub(crate) fn kind_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(kinds())
}

impl From<DialectArg> for Dialect {
    fn from(dialect: DialectArg) -> Self {
        match dialect {
            DialectArg::Sentinel => Dialect::Sentinel,
            DialectArg::Golang => Dialect::Golang,
        }
    }
}

/// An engine to try rules on, at the epoch of its clock.
pub(crate) fn engine_on(clock: &ManualClock) -> flowgate::EngineBuilder {
    Engine::builder().clock(Clock::manual(clock.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_list_comes_from_the_option_the_file_name_or_the_default() {
        let list = |kind, from| Form::List { kind, from };
        for (text, option, file_name, expected) in [
            ("{}", None, "flow.json", Form::Document),
            (" [", None, "flow.json", list("flow", KindFrom::FileName)),
            (
                "[",
                None,
                "Degrade-eu.json",
                list("degrade", KindFrom::FileName),
            ),
            (
                "\u{FEFF}[",
                None,
                "rules.json",
                list("flow", KindFrom::Default),
            ),
            (
                "[",
                Some("degrade"),
                "flow.json",
                list("degrade", KindFrom::Option),
            ),
            ("{}", Some("flow"), "", list("flow", KindFrom::Option)),
            ("", None, "flow.json", Form::Document),
        ] {
            assert_eq!(
                Form::of(text.as_bytes(), option, file_name),
                expected,
                "{text:?}"
            );
        }
    }
}
