//! The server in process, on a free port, over real HTTP, on each store; one file per behaviour.

mod acknowledged;
mod bad_input;
mod batches;
mod broken_keys;
mod damaged;
mod dashboard;
mod finished;
mod headers;
mod history;
mod job_waits;
mod lost_answers;
mod matrix;
mod metrics;
mod node_down;
mod operations;
mod polling;
mod put_and_pop;
mod replaced;
mod reservations;
mod revoked;
mod rights;
mod round_trip;
mod server;
mod several_servers;
mod slots;
mod store_unavailable;
mod topics;
mod traces;
mod unreadable;
mod unwritable;
mod waiting;
mod web_pages;

on_each_store! {
    {
        on_file: super::server::Server::on_file().await,
        on_redis: super::server::Server::on_redis().await,
        on_cluster: super::server::Server::on_cluster().await,
    }
    {
        put_and_pop:
            a_job_is_put_popped_and_finished,
            a_job_arrives_when_it_is_due_and_not_before,
            generated_ids_increase,
            a_body_comes_back_byte_for_byte,
            every_route_is_served_under_v1_too,
            a_job_can_be_read_and_deleted_in_any_state,
            a_living_id_is_refused_kept_or_replaced;
        finished:
            a_kept_job_shows_its_result_and_no_body,
            the_id_of_a_kept_job_is_free_after_its_retention,
            a_retried_put_of_a_finished_job_runs_nothing_twice,
            a_finish_is_repeated_by_its_reservation_alone,
            a_refused_result_changes_nothing,
            a_finished_job_takes_no_other_action,
            a_deleted_id_stays_taken_if_it_is_remembered,
            finished_jobs_are_counted_listed_and_purged,
            a_batch_of_finishes_keeps_results_by_job,
            a_topic_keeps_finished_jobs_unless_a_put_says_no,
            a_bad_retention_is_refused_by_its_name,
            a_wait_ends_with_the_result;
        traces:
            a_job_gives_its_consumers_the_traceparent_of_its_put;
        history:
            a_job_shows_its_attempts_with_the_running_one_last,
            ten_attempts_are_shown_with_the_running_one,
            a_shown_history_can_be_sent_back_and_not_changed,
            a_bad_name_of_a_consumer_is_refused;
        headers:
            headers_reach_every_consumer_and_change_by_patch,
            bad_headers_are_refused_by_field;
        reservations:
            an_expired_job_comes_back_and_its_consumer_is_fenced,
            spent_attempts_end_in_dead,
            a_release_gives_the_job_back_by_its_delay_or_its_backoff,
            a_touch_holds_the_job_longer,
            going_by_id_alone_works_as_in_the_original_design,
            a_reservation_may_stand_in_the_query,
            no_reservation_follows_from_another_of_the_same_pop,
            a_job_is_buried_kicked_and_rescheduled;
        replaced:
            a_store_without_a_loss_has_nothing_to_accept;
        matrix:
            every_route_answers_each_scope_as_the_table_says,
            a_change_shows_no_body_to_a_token_that_may_not_read,
            an_id_of_a_forbidden_topic_reveals_and_changes_nothing;
        revoked:
            the_token_must_be_valid_when_the_body_is_complete,
            a_waiting_pop_gets_no_job_once_its_token_is_invalid,
            a_wait_for_a_job_ends_once_its_token_is_invalid;
        batches:
            each_job_of_a_batch_has_a_result_of_its_own,
            a_thousand_jobs_go_in_and_come_out;
        job_waits:
            a_wait_for_a_job_ends_when_it_is_dead_or_gone,
            a_wait_for_a_job_ends_by_its_last_ttr_or_a_purge,
            a_wait_shows_the_job_as_it_is_at_the_end,
            a_stopping_server_ends_waits_for_jobs;
        waiting:
            a_waiting_pop_is_answered_by_a_put,
            a_wait_that_is_over_is_answered_empty,
            earlier_topics_come_first,
            a_hundred_waiting_pops_share_a_thousand_jobs,
            a_client_that_disconnects_costs_no_consumer_a_job,
            shutting_down_answers_waiting_pops_at_once;
        unreadable:
            an_unreadable_body_is_refused_alone,
            a_body_may_be_nested_128_deep_however_it_is_put,
            odd_text_is_refused_by_field_or_kept;
        bad_input:
            a_bad_put_is_refused_by_field_and_stores_nothing,
            a_bad_id_or_topic_in_the_path_is_refused,
            a_bad_pop_is_refused,
            parameters_that_a_route_does_not_take_are_refused,
            a_body_over_the_limit_is_refused_however_it_is_sent,
            a_bad_batch_is_refused,
            an_unknown_id_or_a_wrong_reservation_is_refused,
            nonsense_never_makes_a_500;
        round_trip:
            null_means_absent_in_every_request,
            a_job_can_be_sent_back_as_a_get_showed_it,
            null_removes_a_backoff_and_nothing_else,
            another_backoff_takes_the_attempts_along,
            a_topic_can_be_sent_back_as_a_get_showed_it,
            a_problem_names_the_place_from_the_beginning_of_the_request;
        topics:
            topics_are_listed_with_exact_counts,
            jobs_are_listed_and_counted_by_due_time,
            an_overview_tells_of_all_topics_at_once,
            jobs_are_paged_through_by_state,
            a_topic_with_settings_is_listed_without_jobs,
            a_page_of_jobs_may_have_a_thousand,
            bad_parameters_are_refused,
            a_paused_topic_takes_jobs_and_hands_out_none,
            a_pause_for_a_time_ends_by_itself,
            the_last_errors_are_reported_with_their_jobs,
            a_flood_of_errors_of_one_topic_leaves_those_of_others,
            a_purge_takes_one_state_or_all,
            a_purge_takes_jobs_that_change_their_state_meanwhile,
            the_dead_of_a_topic_are_kicked_together,
            a_topic_has_defaults_for_jobs_that_do_not_say,
            a_payment_callback_backs_off_dies_and_is_kicked,
            many_deleted_jobs_do_not_hold_up_a_live_one;
        dashboard:
            the_page_and_all_that_it_loads_are_served_from_here,
            the_page_loads_nothing_else_and_is_cached,
            a_404_is_a_page_for_browsers_and_a_problem_for_programs;
        operations:
            health_and_readiness_are_reported,
            every_answer_has_a_request_id,
            every_json_answer_ends_with_a_newline,
            unknown_routes_and_wrong_methods_are_problems_too,
            a_head_request_pops_nothing;
        metrics:
            requests_are_counted_by_route_method_and_status,
            a_request_whose_client_went_away_is_counted_as_that,
            jobs_are_counted_by_topic_state_and_event,
            topics_beyond_the_cap_are_one_and_no_job_is_left_out,
            metrics_are_sent_in_the_requested_format;
    }
}
