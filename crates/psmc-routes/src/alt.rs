//! Routes as records of the private type ALT.

use hickory_proto::rr::rdata::NULL;
use hickory_proto::rr::{Name, RData, RecordType};

use super::{GroupTag, RouteError, SealedRoutes, SignedRoutes};

/// The type ALT, of the range for private use (RFC 6895 §3.1). Programs that do not know it write it `TYPE65400`.
pub const ALT: RecordType = RecordType::Unknown(65400);

/// The contents of an ALT record. Each has a whole set, so none depends on another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltRecord {
    /// Everyone can read it.
    Open(SignedRoutes),
    /// Those who have the group's key can.
    Sealed(SealedRoutes),
}

impl AltRecord {
    /// Reads the RDATA of a record of `service`.
    ///
    /// # Errors
    /// [`RouteError`], if it is malformed or of an unknown form.
    pub fn decode(service: &Name, rdata: &[u8]) -> Result<Self, RouteError> {
        match rdata {
            [] => Err(RouteError::Length),
            [OPEN, body @ ..] => SignedRoutes::read(service, GroupTag::EVERYONE, body).map(Self::Open),
            [SEALED, body @ ..] => SealedRoutes::read(service, body).map(Self::Sealed),
            [form, ..] => Err(RouteError::Form(*form)),
        }
    }

    /// Reads a record's data; `None` if it is of another type.
    #[must_use]
    pub fn of_rdata(service: &Name, rdata: &RData) -> Option<Result<Self, RouteError>> {
        let RData::Unknown { code: ALT, rdata } = rdata else { return None };
        Some(Self::decode(service, &rdata.anything))
    }

    /// The RDATA.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Open(routes) => {
                bytes.push(OPEN);
                routes.write(&mut bytes);
            }
            Self::Sealed(routes) => {
                bytes.push(SEALED);
                routes.write(&mut bytes);
            }
        }
        bytes
    }

    /// The same as a library of DNS has it.
    #[must_use]
    pub fn to_rdata(&self) -> RData {
        RData::Unknown { code: ALT, rdata: NULL::with(self.encode()) }
    }

    /// Whom the routes are for.
    #[must_use]
    pub fn group(&self) -> GroupTag {
        match self {
            Self::Open(routes) => routes.claims().group(),
            Self::Sealed(routes) => routes.group(),
        }
    }
}

/// The first byte of RDATA that everyone can read.
const OPEN: u8 = 1;

/// The first byte of RDATA that is sealed to a group.
const SEALED: u8 = 2;
