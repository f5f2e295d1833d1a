//! What is answered to what is no message.

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};

use super::Malformed;

/// What a message in a datagram holds at most, so that it is not fragmented anywhere (the DNS flag day of 2020).
pub const MAX_UDP_LEN: u16 = 1232;

/// A response to what cannot be parsed: its header is all that is known of it, and that it has EDNS where only an option is
/// wrong.
#[must_use]
pub fn malformed(bytes: &[u8], error: Malformed) -> Option<Vec<u8>> {
    let [id_high, id_low, high, low] = *bytes.first_chunk()?;
    let op_code = OpCode::from_u8(high >> 3 & 0x0f);
    let mut response =
        Message::error_msg(u16::from_be_bytes([id_high, id_low]), op_code, ResponseCode::FormErr);
    let is_question = op_code == OpCode::Query;
    response.metadata.recursion_desired = is_question && high & 0x01 != 0;
    response.metadata.checking_disabled = is_question && low & 0x10 != 0;
    if let Malformed::Option(_) = error {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_LEN);
        response.set_edns(edns);
    }
    response.to_vec().ok()
}
