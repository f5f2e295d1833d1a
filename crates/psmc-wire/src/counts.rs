//! Datagrams counted by colour, by which loss and delay are found segment by segment (RFC 9341): what sites and relays tell
//! each other of that. Section 16 of the protocol.

use crate::fields::{Malformed, Reader};
use crate::ids::PathId;

/// How long a sender's datagrams keep their colour, in microseconds of its clock.
pub const BLOCK_US: u64 = 500_000;

/// The colours: that of even blocks, and that of odd ones.
pub const COLOURS: usize = 2;

/// Delay samples of a path and direction in one message at most: those of 0.8 s, four times as long as between questions.
/// Sixty-four paths with so many fit into one message.
pub const MAX_SAMPLES: usize = 16;

/// Paths in one message at most: as many as a session may have.
pub const MAX_COUNTED_PATHS: usize = 64;

/// Numbers of datagrams, by colour.
pub type ByColour = [u64; COLOURS];

/// What a site has counted, of all paths to the peer that it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The question to which this is the answer.
    pub request: u32,
    /// The site's clock in this session, in microseconds. It does not wrap; timestamps are its lower half.
    pub clock_us: u64,
    /// At most [`MAX_COUNTED_PATHS`], by id.
    pub paths: Vec<PathCounts>,
}

/// What a site has counted of one path since that was opened, or its session began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathCounts {
    /// The path.
    pub path: PathId,
    /// Datagrams sealed.
    pub sent: ByColour,
    /// Datagrams received that were authentic and new.
    pub received: ByColour,
    /// Received ones with the delay mark that were not told before, at most [`MAX_SAMPLES`].
    pub samples: Vec<Arrived>,
}

/// When a datagram with the delay mark was sent, and when it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// The low 32 bits of its packet number.
    pub number: u32,
    /// Its timestamp: the sender's clock, in microseconds, modulo 2^32.
    pub sent_us: u32,
    /// The receiver's clock, in microseconds, modulo 2^32.
    pub received_us: u32,
}

/// What a relay has counted of one direction of a session since that was reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// Datagrams that came with a hop header that was authentic and new.
    pub received: ByColour,
    /// Datagrams that were sent on.
    pub handed_on: ByColour,
    /// Received ones with the delay mark that were not told before, at most [`MAX_SAMPLES`].
    pub samples: Vec<Passed>,
}

/// When a datagram with the delay mark came to a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The low 32 bits of its packet number.
    pub number: u32,
    /// The relay's clock, in microseconds, modulo 2^32.
    pub at_us: u32,
}

impl Counts {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (request, clock_us) = (reader.u32()?, reader.u64()?);
        let count = usize::from(reader.u8()?);
        if count > MAX_COUNTED_PATHS {
            return Err(Malformed::Illegal("number of paths"));
        }
        let paths = (0..count).map(|_| PathCounts::decode(reader)).collect::<Result<_, _>>()?;
        Ok(Self { request, clock_us, paths })
    }

    /// Appends it; what exceeds the bounds is left out.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.request.to_be_bytes());
        out.extend(self.clock_us.to_be_bytes());
        let count = self.paths.len().min(MAX_COUNTED_PATHS);
        out.push(u8::try_from(count).unwrap_or(u8::MAX));
        for path in &self.paths[..count] {
            path.encode(out);
        }
    }
}

impl PathCounts {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            path: PathId(reader.u16()?),
            sent: by_colour(reader)?,
            received: by_colour(reader)?,
            samples: samples(reader, |reader| {
                let (number, sent_us) = (reader.u32()?, reader.u32()?);
                Ok(Arrived { number, sent_us, received_us: reader.u32()? })
            })?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.path.0.to_be_bytes());
        write_by_colour(self.sent, out);
        write_by_colour(self.received, out);
        for sample in write_count(&self.samples, out) {
            for field in [sample.number, sample.sent_us, sample.received_us] {
                out.extend(field.to_be_bytes());
            }
        }
    }
}

impl LaneCounts {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            received: by_colour(reader)?,
            handed_on: by_colour(reader)?,
            samples: samples(reader, |reader| Ok(Passed { number: reader.u32()?, at_us: reader.u32()? }))?,
        })
    }

    /// Appends it; what exceeds the bounds is left out.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_by_colour(self.received, out);
        write_by_colour(self.handed_on, out);
        for sample in write_count(&self.samples, out) {
            out.extend(sample.number.to_be_bytes());
            out.extend(sample.at_us.to_be_bytes());
        }
    }
}

fn by_colour(reader: &mut Reader<'_>) -> Result<ByColour, Malformed> {
    Ok([reader.u64()?, reader.u64()?])
}

fn write_by_colour(counts: ByColour, out: &mut Vec<u8>) {
    for count in counts {
        out.extend(count.to_be_bytes());
    }
}

fn samples<T>(
    reader: &mut Reader<'_>,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = usize::from(reader.u8()?);
    if count > MAX_SAMPLES {
        return Err(Malformed::Illegal("number of samples"));
    }
    (0..count).map(|_| one(reader)).collect()
}

/// Appends how many of the samples are told, and returns those.
fn write_count<'s, T>(samples: &'s [T], out: &mut Vec<u8>) -> &'s [T] {
    let told = &samples[..samples.len().min(MAX_SAMPLES)];
    out.push(u8::try_from(told.len()).unwrap_or(u8::MAX));
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{LENGTH_LEN, MAX_MESSAGE, Message};

    fn path(samples: usize) -> PathCounts {
        let samples = vec![Arrived::default(); samples];
        PathCounts { path: PathId(0), sent: [1, 2], received: [3, 4], samples }
    }

    #[test]
    fn all_paths_with_all_samples_fit_into_one_message() {
        let path = path(MAX_SAMPLES);
        let counts = Counts { paths: vec![path; MAX_COUNTED_PATHS], ..Counts::default() };
        let mut bytes = Vec::new();
        Message::Counts(counts.clone()).encode(&mut bytes);
        assert_eq!(bytes.len() - LENGTH_LEN, 14_542, "as section 11 says");
        assert!(bytes.len() - LENGTH_LEN <= MAX_MESSAGE);
        assert_eq!(Message::decode(&bytes[LENGTH_LEN..]), Ok(Message::Counts(counts)));
    }

    #[test]
    fn what_exceeds_the_bounds_is_not_written_and_not_read() {
        let path = path(MAX_SAMPLES + 1);
        let counts = Counts { paths: vec![path; MAX_COUNTED_PATHS + 1], ..Counts::default() };
        let mut bytes = Vec::new();
        counts.encode(&mut bytes);
        let read = Counts::decode(&mut Reader::new(&bytes)).expect("what is within the bounds");
        assert_eq!((read.paths.len(), read.paths[0].samples.len()), (MAX_COUNTED_PATHS, MAX_SAMPLES));
        bytes[12] = 65;
        assert_eq!(Counts::decode(&mut Reader::new(&bytes)), Err(Malformed::Illegal("number of paths")));
        (bytes[12], bytes[47]) = (1, 17);
        assert_eq!(Counts::decode(&mut Reader::new(&bytes)), Err(Malformed::Illegal("number of samples")));
    }
}
