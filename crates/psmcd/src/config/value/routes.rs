//! When routes that are learned while a site runs are used.

use std::fmt;
use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError, choose};

/// When the paths over learned routes carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RoutePolicy {
    /// While none of the direct paths is well; meanwhile they stand by.
    #[default]
    PreferDirect,
    /// Whenever they work; the direct paths stand by.
    PreferIndirect,
    /// While none of the direct paths is well; otherwise there are none.
    OnFailure,
}

impl RoutePolicy {
    const ALL: [Self; 3] = [Self::PreferDirect, Self::PreferIndirect, Self::OnFailure];

    /// As the configuration spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferDirect => "prefer-direct",
            Self::PreferIndirect => "prefer-indirect",
            Self::OnFailure => "on-failure",
        }
    }
}

impl fmt::Display for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for RoutePolicy {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        choose("use of learned routes", Self::ALL, Self::as_str, text)
    }
}

impl Setting for RoutePolicy {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"prefer-direct\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back() {
        for policy in RoutePolicy::ALL {
            assert_eq!(policy.as_str().parse(), Ok(policy));
        }
        assert!("direct".parse::<RoutePolicy>().is_err());
    }
}
