-- jobs.lua for the scripts that are called most often. Creating a function takes a large part of the time of a Redis
-- command. So these scripts create the functions of jobs.lua once per call, and only if a job needs them.

local function make_tools()
--- @include "shared/jobs"
  return {
    find_job = find_job, locate_job = locate_job, state_of = state_of, search_topics = search_topics,
    may_have_history = may_have_history, with_consumer = with_consumer, parse_attempt = parse_attempt,
    parse_rules = parse_rules, rules_of_damaged = rules_of_damaged, leave_set = leave_set, join_set = join_set,
    topic_shrinks = topic_shrinks, register_topic = register_topic, commit = commit
  }
end

local made
local function tools()
  made = made or make_tools()
  return made
end
