//! The algorithms, event by event and on simulated paths.

mod any_bytes;
mod bbr3_paths;
mod bbr3_scenarios;
mod bbr3_states;
mod careful_resume;
mod careful_resume_observing;
mod careful_resume_paths;
mod collapse;
mod defects;
mod forged;
mod growth;
mod invariants;
mod path_change;
mod pauses;
mod persistent;
mod prague;
mod reduction;
mod scenarios;
mod search;
mod slow_start;
mod test_support;
mod undo;
