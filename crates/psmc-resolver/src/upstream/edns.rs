//! Whether an upstream server takes EDNS (RFC 6891).

use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};

use crate::question::Form;

/// How long a server that does not take EDNS is asked without: it may be replaced by one that does.
const PLAIN: Duration = Duration::from_secs(600);

/// Questions in a row that were answered only without EDNS until that is taken for the rule: some datagrams are lost.
const MAX_RESCUES: u32 = 3;

/// What is known of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Edns {
    plain_until: Option<Instant>,
    rescues: u32,
}

impl Edns {
    /// How it is asked.
    pub(super) fn form(&self, now: Instant) -> Form {
        if self.plain_until.is_some_and(|until| now < until) { Form::Plain } else { Form::Edns }
    }

    /// It has answered a question with EDNS, or refused it and the same without.
    pub(super) fn answered(&mut self) {
        self.rescues = 0;
    }

    /// It has refused EDNS and answered without.
    pub(super) fn refused(&mut self, now: Instant) {
        self.plain_until = Some(now + PLAIN);
    }

    /// It was silent with EDNS and answered without.
    pub(super) fn only_plain_answered(&mut self, now: Instant) {
        self.rescues += 1;
        if self.rescues >= MAX_RESCUES {
            *self = Self { plain_until: Some(now + PLAIN), rescues: 0 };
        }
    }
}

/// Whether a server says that it cannot do anything with a question, which may be because of EDNS.
pub(super) fn is_refused(message: &Message) -> bool {
    matches!(message.response_code, ResponseCode::FormErr | ResponseCode::NotImp | ResponseCode::BADVERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edns_is_left_out_for_a_while_where_it_is_refused_or_always_lost() {
        let (mut edns, now) = (Edns::default(), Instant::now());
        edns.only_plain_answered(now);
        edns.only_plain_answered(now);
        edns.answered();
        edns.only_plain_answered(now);
        edns.only_plain_answered(now);
        assert_eq!(edns.form(now), Form::Edns);
        edns.only_plain_answered(now);
        assert_eq!((edns.form(now), edns.form(now + PLAIN)), (Form::Plain, Form::Edns));
        let mut edns = Edns::default();
        edns.refused(now);
        assert_eq!((edns.form(now), edns.form(now + PLAIN)), (Form::Plain, Form::Edns));
    }
}
