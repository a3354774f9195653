//! Responses that share a connection, over a link in virtual time.

mod link;
mod order;
mod pages;
mod starvation;
