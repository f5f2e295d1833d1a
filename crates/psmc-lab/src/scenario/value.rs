//! The values that scenarios are made of. Each type holds only what is legal, and says what is wrong otherwise.

mod choice;
mod link;
mod name;
mod net;
mod number;
mod quantity;

pub(super) use choice::{ControllerName, Direction, DisciplineName, NatKindName, TrafficKindName};
pub(super) use link::{Percent, Queue};
pub(super) use name::{Argument, Controller, FilePath, LinkName, Reference, Title};
pub(super) use net::{HostAddress, Ip, Prefix};
pub(super) use number::{Flag, Frequency, Integer, Weight, Whole};
pub(super) use quantity::{LinkRate, Size, StreamRate, Time};
