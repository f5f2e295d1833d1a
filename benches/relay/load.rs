//! What is sent.

/// How many bytes each datagram carries, and in what groups they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Bytes of a datagram as its receiver sees it.
    pub(crate) size: usize,
    /// Datagrams of one session that come together.
    pub(crate) burst: usize,
}

/// Sizes, in bytes: the smallest, a middling and a full-size datagram.
const SIZES: [usize; 3] = [64, 512, 1400];

/// One by one, each of another session; and so many of one session that the kernel can join them.
const BURSTS: [usize; 2] = [1, 16];

impl Load {
    /// What comes at an even rate.
    pub(crate) const PACED: Self = Self { size: 1400, burst: 1 };

    pub(crate) const COUNT: usize = SIZES.len() * BURSTS.len();

    /// All under which costs are measured.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        BURSTS.into_iter().flat_map(|burst| SIZES.into_iter().map(move |size| Self { size, burst }))
    }

    /// What the tables call it.
    pub(crate) fn label(self) -> String {
        let arriving =
            if self.burst == 1 { "singly".to_owned() } else { format!("bursts of {}", self.burst) };
        format!("{} bytes, {arriving}", self.size)
    }
}
