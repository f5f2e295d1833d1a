//! Questions as in RFC 8906 §8, and worse.

use std::net::UdpSocket;
use std::time::Duration;

use super::zones::Random;

const QUESTIONS: u64 = 200;

/// How long no answer is waited for; each server is asked again once.
const PATIENCE: Duration = Duration::from_secs(3);

/// Asks both the same, and says where the answers differ.
pub(super) fn compare(one: &str, other: &str) -> Vec<String> {
    let mut differences = Vec::new();
    for number in 0..QUESTIONS {
        let (what, question) = question(&mut Random(number));
        let (first, second) = (answer(one, &question), answer(other, &question));
        if first != second {
            differences.push(format!("{number} {what} {question:02x?}:\n  BIND {first}\n  ours {second}"));
        }
    }
    differences
}

/// A question, and what it is in words.
fn question(random: &mut Random) -> (String, Vec<u8>) {
    let op_code = random.of(&[0_u8, 0, 0, 0, 0, 1, 2, 3, 6, 7, 15]);
    // Recursion is desired or not, and the bits of answers may be set.
    let high = op_code << 3 | random.of(&[0_u8, 1, 4, 5]);
    let low = random.of(&[0_u8, 0x10, 0x20, 0x40, 0x70]);
    let count = random.of(&[1_u16, 1, 1, 1, 1, 0]);
    let mut bytes = vec![0x12, 0x34, high, low];
    let has_options = random.below(3) > 0;
    bytes.extend([count, 0, 0, u16::from(has_options)].map(u16::to_be_bytes).concat());
    let mut what = format!("opcode {op_code} flags {low:02x}");
    for _ in 0..count {
        let name = random.of(&[
            &b"\x07example\x03com\0"[..],
            b"\x07eXAMPLE\x03COM\0",
            b"\x03www\x07example\x03com\0",
            b"\x04nope\x07example\x03com\0",
            b"\x05other\x04test\0",
            b"\0",
        ]);
        let kind = random.of(&[1_u16, 6, 2, 16, 28, 1000, 43, 65_400]);
        bytes.extend([name, &kind.to_be_bytes(), b"\0\x01"].concat());
        what += &format!(" {} type {kind}", String::from_utf8_lossy(name));
    }
    if has_options {
        let version = random.of(&[0_u8, 0, 0, 1, 100]);
        let flags = random.of(&[0_u16, 0x8000, 0x0080, 0xffff]);
        let options = random.of(&[
            &b""[..],
            b"\0\x64\0\0",
            b"\0\x08\0\x04\0\0\0\0",
            b"\0\x08\0\x07\0\x01\x18\0\xc0\0\x02",
            b"\0\x08\0\x04\0\x07\0\0",
            b"\0\x0a\0\x08abcdefgh",
            b"\0\x0a\0\x02ab",
            b"\0\x0c\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\0\x0e\0\x01\0",
            b"\0\x03\0\0\0\x64\0\x01x",
            b"\0\x09\0\0",
            b"\0\x09\0\x01x",
            b"\0\x0f\0\x01x",
            b"\0\x0f\0\x02\0\x01",
            b"\0\x64\0\x09x",
        ]);
        let length = u16::try_from(options.len()).unwrap();
        let size = random.of(&[4096_u16, 1232, 512, 0]);
        bytes.extend(
            [
                &b"\0\0\x29"[..],
                &size.to_be_bytes(),
                &[0, version],
                &flags.to_be_bytes(),
                &length.to_be_bytes(),
                options,
            ]
            .concat(),
        );
        what += &format!(" EDNS {version} flags {flags:04x} options {options:02x?}");
    }
    (what, bytes)
}

/// What an answer says of itself: its flags, its code, and how much is in it.
fn answer(server: &str, question: &[u8]) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..2 {
        socket.send_to(question, server).unwrap();
        if let Ok((length, _)) = socket.recv_from(&mut buffer) {
            return described(&buffer[..length]);
        }
    }
    "nothing".to_owned()
}

fn described(answer: &[u8]) -> String {
    let message = psmc_routes::wire::read_message(answer).expect("an answer is well-formed").message;
    let id = u16::from_be_bytes([answer[0], answer[1]]);
    let edns = message.edns.as_ref().map(|edns| (edns.version(), edns.flags().dnssec_ok));
    format!(
        "id {id:x} flags {:02x}{:02x} code {:?} answers {} authority {} EDNS {edns:?}",
        answer[2],
        answer[3] & 0xf0,
        message.response_code,
        message.answers.len(),
        message.authorities.len(),
    )
}
