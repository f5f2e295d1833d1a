//! What a site could not carry on of what its peer has sent it. Section 2.14 of the protocol.

use ipnet::IpNet;

use crate::fields::{self, Malformed, Reader};

/// Aggregates in one message at most.
pub const MAX_AGGREGATES: usize = 16;

/// What a packet's headers say that its sender does after a drop. It is not believed: it only keeps packets of different kinds
/// apart, so that a flood is not taken together with the connections of its neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// TCP, or whatever else is not UDP.
    #[default]
    Tcp,
    /// UDP that looks like QUIC.
    Quic,
    /// Any other UDP.
    Plain,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Quic, Self::Plain];

    /// Its name in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
            Self::Plain => "udp",
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Tcp => 0,
            Self::Quic => 1,
            Self::Plain => 2,
        }
    }
}

/// What became of packets of the receiver's since the last message, behind the sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// At most [`MAX_AGGREGATES`], of each of which something was dropped.
    pub of: Vec<DropsOf>,
}

/// What became of packets of one kind, from one prefix to another. Both are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropsOf {
    /// What their headers promise.
    pub kind: Kind,
    /// Where they come from.
    pub sources: IpNet,
    /// Where they go.
    pub destinations: IpNet,
    /// Bytes that arrived, of inner packets with their headers.
    pub delivered: u64,
    /// Bytes dropped by congestion.
    pub dropped: u64,
    /// Bytes dropped because the sender, or somebody behind it, holds them down.
    pub held_back: u64,
}

impl Drops {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let count = usize::from(reader.u8()?);
        if count > MAX_AGGREGATES {
            return Err(Malformed::Illegal("number of aggregates"));
        }
        Ok(Self { of: (0..count).map(|_| DropsOf::decode(reader)).collect::<Result<_, _>>()? })
    }

    /// Appends it; what exceeds the bound is left out, and what is of two families.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let is_of_one_family =
            |of: &&DropsOf| of.sources.addr().is_ipv4() == of.destinations.addr().is_ipv4();
        let all = self.of.iter().filter(is_of_one_family).take(MAX_AGGREGATES);
        out.push(u8::try_from(all.clone().count()).unwrap_or(u8::MAX));
        all.for_each(|of| of.encode(out));
    }
}

impl DropsOf {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let code = reader.u8()?;
        let kind =
            Kind::ALL.into_iter().find(|kind| kind.code() == code).ok_or(Malformed::Illegal("kind"))?;
        let family = reader.u8()?;
        Ok(Self {
            kind,
            sources: reader.prefix(family)?,
            destinations: reader.prefix(family)?,
            delivered: reader.u64()?,
            dropped: reader.u64()?,
            held_back: reader.u64()?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind.code());
        out.push(if self.sources.addr().is_ipv4() { 4 } else { 6 });
        for prefix in [self.sources, self.destinations] {
            fields::prefix(prefix, out);
        }
        for bytes in [self.delivered, self.dropped, self.held_back] {
            out.extend(bytes.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sources: &str, destinations: &str) -> DropsOf {
        let [sources, destinations] = [sources, destinations].map(|text| text.parse().expect("a prefix"));
        DropsOf { kind: Kind::Plain, sources, destinations, delivered: 1, dropped: 2, held_back: 3 }
    }

    fn decoded(drops: &Drops) -> Result<Drops, Malformed> {
        let mut bytes = Vec::new();
        drops.encode(&mut bytes);
        Drops::decode(&mut Reader::new(&bytes))
    }

    #[test]
    fn prefixes_have_one_spelling_and_one_family() {
        let drops = Drops { of: vec![of("10.1.2.3/16", "10.2.0.0/32"), of("fd00::/8", "10.2.0.0/16")] };
        assert_eq!(decoded(&drops), Ok(Drops { of: vec![of("10.1.0.0/16", "10.2.0.0/32")] }));
        let mut bytes = Vec::new();
        drops.encode(&mut bytes);
        // Behind the number of aggregates, the kind, the family and the length of the prefix.
        for (place, value, what) in
            [(1, 3, "kind"), (2, 5, "address family"), (3, 33, "prefix length"), (7, 1, "prefix")]
        {
            let mut odd = bytes.clone();
            odd[place] = value;
            assert_eq!(Drops::decode(&mut Reader::new(&odd)), Err(Malformed::Illegal(what)));
        }
    }

    #[test]
    fn no_more_than_sixteen_are_told() {
        let drops = Drops { of: vec![of("::/0", "2001:db8::/32"); 17] };
        assert_eq!(decoded(&drops).map(|drops| drops.of.len()), Ok(16));
        assert_eq!(Drops::decode(&mut Reader::new(&[17])), Err(Malformed::Illegal("number of aggregates")));
    }
}
