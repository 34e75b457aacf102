//! Faults under load, with the real binary and real Redis processes. Whatever is killed, frozen or
//! disconnected, the promises must hold. The judge checks the answers to clients and the contents
//! of the store.

mod answers;
pub mod client;
mod clock;
mod clock_of_schedules;
mod cluster;
mod cut;
pub mod epoch;
mod fired;
mod frozen;
mod hang_up;
pub mod history;
pub mod judge;
pub mod load;
pub mod percentiles;
mod prelude;
mod pushed;
mod redis;
mod scans;
mod scenario;
mod sentinel;
mod terminated;

on_each_store! {
    {
        on_file: super::clock::Server::on_file().await,
        on_redis: super::clock::Server::on_redis().await,
    }
    {
        clock:
            a_jump_there_and_back_changes_nothing,
            no_job_due_soon_is_early_when_the_clock_jumps,
            a_jump_makes_no_absolute_due_time_early,
            jobs_can_be_touched_when_the_clock_jumps;
        clock_of_schedules:
            schedules_are_right_after_a_jump_of_the_clock,
            a_day_without_a_server_is_missed_as_schedules_say,
            a_clock_error_at_the_start_silences_no_schedule;
    }
}
