//! Behaviour of our quiche that upstream's own tests do not try.

mod controller;
mod data_packets;
mod ecn;
mod emptied_stream;
mod encoded_heads;
mod late_acks;
mod late_retry;
mod late_timers;
mod lent_data;
mod long_parameters;
mod manifest;
mod new_token;
mod nothing_to_send;
mod packing;
mod path_mtu;
mod rebinding;
mod received_frames;
mod refusals;
mod released_tls;
mod retired_ids;
mod send_limit;
mod series;
mod switch;
mod traces;
