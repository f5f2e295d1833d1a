//! Yes or no.

use std::str::FromStr;

use super::{Form, Setting, ValueError};

/// Something that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "write true or false, without quotes";
        text.parse().map(Self).map_err(|_| ValueError::new(format!("{text:?} is neither yes nor no"), remedy))
    }
}

impl Setting for Switch {
    const FORM: Form = Form::Boolean;
    const EXAMPLE: &'static str = "true";
}
