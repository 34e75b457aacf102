#![doc = include_str!("../README.md")]

mod calendar;
mod describe;
mod every;
mod field;
mod invalid;
mod line;
mod rule;
mod span;
mod time_of_day;
mod timing;
mod wall_clock;
mod zone;

pub use self::{
    invalid::Invalid,
    timing::{Fields, Timing},
};
