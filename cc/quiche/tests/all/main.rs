//! What our quiche does beside what upstream's own tests try.

mod controller;
mod ecn;
mod encoded_heads;
mod late_acks;
mod late_timers;
mod lent_data;
mod manifest;
mod new_token;
mod packing;
mod path_mtu;
mod rebinding;
mod received_frames;
mod refusals;
mod traces;
