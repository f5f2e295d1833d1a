//! Numbers.

use std::str::FromStr;

use super::{Form, Setting, ValueError};

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const LEAST: u32, const MOST: u32>(pub u32);

impl<const LEAST: u32, const MOST: u32> FromStr for Whole<LEAST, MOST> {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|number| (LEAST..=MOST).contains(number)).map(Self).ok_or_else(|| {
            ValueError::new(
                format!("{text} is out of bounds here"),
                format!("write a whole number from {LEAST} to {MOST}"),
            )
        })
    }
}

impl<const LEAST: u32, const MOST: u32> Setting for Whole<LEAST, MOST> {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "10";
}
