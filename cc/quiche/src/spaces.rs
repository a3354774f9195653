//! State of the packet number spaces of a connection.
//!
//! The build script places this file at `packet/spaces.rs` of the patched source.

use std::cell::Cell;
use std::ops::Index;
use std::ops::IndexMut;

use super::CryptoContext;
use super::Epoch;
use super::PktNumSpace;

/// State of one packet number space.
pub trait Space: Sized + 'static {
    /// Returns the state of a space in which nothing was sent or received.
    fn begin() -> Self;

    /// Returns the state of a space that has ended: no keys, and nothing to send.
    fn ended() -> &'static Self;
}

/// State of the three packet number spaces. Two of them end with the handshake, and then hold no memory.
pub struct Spaces<T> {
    application: T,
    /// Initial and Handshake, until they end.
    handshake: Option<Box<[T; 2]>>,
}

impl<T: Space> Spaces<T> {
    /// Returns the state of a new connection.
    pub fn new() -> Self {
        Spaces { application: T::begin(), handshake: Some(Self::begin()) }
    }

    fn begin() -> Box<[T; 2]> {
        Box::new([T::begin(), T::begin()])
    }

    /// Frees the spaces of the handshake.
    pub fn end_handshake(&mut self) {
        self.handshake = None;
    }

    /// Returns the first space that has not ended.
    #[inline(always)]
    pub fn first(&self) -> Epoch {
        match self.handshake {
            Some(_) => Epoch::Initial,
            None => Epoch::Application,
        }
    }
}

impl<T: Space> Index<Epoch> for Spaces<T> {
    type Output = T;

    // Each packet asks several times, nearly always for this space.
    #[inline(always)]
    fn index(&self, epoch: Epoch) -> &T {
        if epoch == Epoch::Application {
            return &self.application;
        }
        match &self.handshake {
            Some(spaces) => &spaces[usize::from(epoch)],
            None => T::ended(),
        }
    }
}

/// A space that has ended begins again: the packet that ends both is counted in its own afterwards.
impl<T: Space> IndexMut<Epoch> for Spaces<T> {
    #[inline(always)]
    fn index_mut(&mut self, epoch: Epoch) -> &mut T {
        if epoch == Epoch::Application {
            return &mut self.application;
        }
        &mut self.handshake.get_or_insert_with(Self::begin)[usize::from(epoch)]
    }
}

/// Makes a state once for each thread: it cannot be shared, as its streams are counted without atomic instructions.
macro_rules! space {
    ($name:ty) => {
        impl Space for $name {
            fn begin() -> Self {
                Self::new()
            }

            fn ended() -> &'static Self {
                thread_local! {
                    static ENDED: Cell<Option<&'static $name>> = const { Cell::new(None) };
                }
                ENDED.get().unwrap_or_else(|| {
                    let ended: &'static $name = Box::leak(Box::new(Self::new()));
                    ENDED.set(Some(ended));
                    ended
                })
            }
        }
    };
}

space!(CryptoContext);
space!(PktNumSpace);
