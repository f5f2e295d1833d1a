//! The one place in memory where a private key is.

use std::fmt;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize;

use super::KEY_LEN;

/// Bytes in pages of their own, which are in no core dump, in no swap where the system lets this process lock them, and in no
/// child; wiped when dropped. They never move.
pub(super) struct Secret(NonNull<[u8; KEY_LEN]>);

/// Of the smallest page of any machine; the kernel rounds up.
const PAGE: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

impl Secret {
    /// Zeros, as which `fill` finds the place, and what it leaves there.
    ///
    /// # Panics
    /// If the system has no memory to give, as any allocation does.
    pub(super) fn filled(fill: impl FnOnce(&mut [u8; KEY_LEN])) -> Self {
        let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
        // SAFETY: a new mapping at a place that the kernel chooses touches no memory that anybody has.
        #[expect(unsafe_code, reason = "memory of this kind is had from the kernel only")]
        let page = unsafe { mmap_anonymous(None, PAGE, protection, flags) }.expect("the system has memory");
        // SAFETY: all three are about the mapping just made, which is as long as they say. What they ask for is as good as it can be
        // had: a limit may forbid to lock memory.
        #[expect(unsafe_code, reason = "the same")]
        unsafe {
            let _ = mlock(page, PAGE.get());
            let _ = madvise(page, PAGE.get(), MmapAdvise::MADV_DONTDUMP);
            let _ = madvise(page, PAGE.get(), MmapAdvise::MADV_DONTFORK);
        }
        let mut secret = Self(page.cast());
        fill(secret.bytes_mut());
        secret
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_LEN] {
        // SAFETY: the mapping is readable, longer than this, made of zeros at first, and there until `self` is dropped; who has `self`
        // for themselves alone may write to it.
        #[expect(unsafe_code, reason = "the memory is no allocation of Rust's")]
        unsafe {
            self.0.as_ref()
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8; KEY_LEN] {
        // SAFETY: as in `bytes`, and `self` is borrowed for this alone.
        #[expect(unsafe_code, reason = "the same")]
        unsafe {
            self.0.as_mut()
        }
    }
}

// SAFETY: it owns its mapping as a `Box` does its allocation, and has no other state.
#[expect(unsafe_code, reason = "a pointer says nothing of who owns what it points to")]
unsafe impl Send for Secret {}

// SAFETY: a shared one is only read.
#[expect(unsafe_code, reason = "the same")]
unsafe impl Sync for Secret {}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        // SAFETY: the mapping is `self`'s, and nobody can borrow from it any more.
        #[expect(unsafe_code, reason = "the same")]
        // It fails for none that was made; if it did, zeros stayed.
        let _ = unsafe { munmap(self.0.cast(), PAGE.get()) };
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in() {
        let secret = Secret::filled(|bytes| {
            assert_eq!(*bytes, [0; KEY_LEN]);
            bytes[31] = 7;
        });
        assert_eq!((secret.bytes()[0], secret.bytes()[31]), (0, 7));
        std::thread::spawn(move || drop(secret)).join().unwrap();
    }
}
