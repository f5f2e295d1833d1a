use super::*;

const SECRET: [u8; SECRET_LEN] = {
    let mut secret = [0; SECRET_LEN];
    let mut at = 0u8;
    while (at as usize) < SECRET_LEN {
        secret[at as usize] = at;
        at += 1;
    }
    secret
};

/// Path 3, packet 9.
const NONCE: [u8; NONCE_LEN] = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
const BOTH: [Aead; 2] = [Aead::Aes256Gcm, Aead::ChaCha20Poly1305];

fn key(aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey> {
    ExportedKeys::new(&SECRET).packet_key(aead, sealer, epoch)
}

fn seal(key: &dyn PacketKey, aad: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut sealed = payload.to_vec();
    let tag = key.seal(NONCE, aad, &mut sealed);
    sealed.extend_from_slice(&tag);
    sealed
}

/// What Python's `cryptography` makes of "hello" with the additional data "label", acceptor, epoch 7.
#[test]
fn agrees_with_another_implementation() {
    let expected: [[u8; 21]; 2] = [
        [
            0xf1, 0xc5, 0x0b, 0x39, 0x48, 0x45, 0x5d, 0xba, 0xcf, 0xd9, 0x9f, 0x9c, 0x1b, 0x47, 0xea, 0x3a,
            0x49, 0x50, 0xff, 0x5e, 0x19,
        ],
        [
            0x5c, 0x08, 0x21, 0x50, 0xb3, 0xff, 0x4b, 0xbd, 0x11, 0x01, 0xa4, 0xc9, 0xa7, 0xa6, 0xf0, 0x1e,
            0x92, 0xc1, 0xba, 0x7a, 0x48,
        ],
    ];
    for (aead, expected) in BOTH.into_iter().zip(expected) {
        assert_eq!(seal(&*key(aead, Role::Acceptor, 7), b"label", b"hello"), expected, "{aead:?}");
    }
}

#[test]
fn one_end_opens_what_the_other_seals() {
    for aead in BOTH {
        for payload in [&b""[..], b"x", &[7; 1400]] {
            let mut sealed = seal(&*key(aead, Role::Dialer, 0), b"aad", payload);
            key(aead, Role::Dialer, 0).open(NONCE, b"aad", &mut sealed).unwrap();
            assert_eq!(&sealed[..payload.len()], payload);
        }
    }
}

#[test]
fn every_altered_bit_is_noticed() {
    for aead in BOTH {
        let key = key(aead, Role::Dialer, 0);
        let sealed = seal(&*key, b"aad", b"payload");
        for bit in 0..sealed.len() * 8 {
            let mut altered = sealed.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.open(NONCE, b"aad", &mut altered), Err(AuthError), "bit {bit}");
        }
    }
}

#[test]
fn aad_nonce_and_length_are_authenticated() {
    let key = key(Aead::Aes256Gcm, Role::Dialer, 0);
    let sealed = seal(&*key, b"aad", b"payload");
    let mut other_nonce = NONCE;
    other_nonce[11] += 1;
    assert_eq!(key.open(NONCE, b"aae", &mut sealed.clone()), Err(AuthError));
    assert_eq!(key.open(other_nonce, b"aad", &mut sealed.clone()), Err(AuthError));
    for len in 0..sealed.len() {
        assert_eq!(key.open(NONCE, b"aad", &mut sealed[..len].to_vec()), Err(AuthError), "length {len}");
    }
}

#[test]
fn keys_differ_by_aead_sealer_epoch_and_connection() {
    let sealed = seal(&*key(Aead::Aes256Gcm, Role::Dialer, 0), b"", b"payload");
    let other_connection = ExportedKeys::new(&[1; SECRET_LEN]);
    for wrong in [
        key(Aead::ChaCha20Poly1305, Role::Dialer, 0),
        key(Aead::Aes256Gcm, Role::Acceptor, 0),
        key(Aead::Aes256Gcm, Role::Dialer, 1),
        other_connection.packet_key(Aead::Aes256Gcm, Role::Dialer, 0),
    ] {
        assert_eq!(wrong.open(NONCE, b"", &mut sealed.clone()), Err(AuthError));
    }
}

#[test]
fn debug_prints_nothing_secret() {
    assert_eq!(format!("{:?}", ExportedKeys::new(&SECRET)), "ExportedKeys(..)");
}
