-- Re-examines jobs that a scan found inconsistent, each one atomically, and mends them if requested.
-- ARGV  2 '1' to mend, '' to report only; then for each job: id, number of topics, the topics in which a scan found it
-- Reply for each job: 0 it is sound, 1 it is in no set, 2 it is in several sets, 3 it is in a wrong set, 4 it has no record,
--       5 its long body is missing, 6 the timer does not know when it expires

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "mend/repair"

-- Every set of these topics that has the job, as { topic, state }.
local function sets_with(id, topics)
  local sets, seen = {}, {}
  for _, topic in ipairs(topics) do
    for _, state in ipairs(seen[topic] and {} or STATES) do
      local score = redis.call('ZSCORE', key(state, topic), id)
      if score then sets[#sets + 1] = { topic = topic, state = state, time = time_of(state, score) } end
    end
    seen[topic] = true
  end
  return sets
end

local function examine(id, topics)
  local text = redis.call('HGET', ATTEMPTS, id)
  local job = redis.call('HEXISTS', POOL, id) == 1 and find_job(id, text) or nil
  if job and job.topic then topics[#topics + 1] = job.topic end
  local sets = sets_with(id, topics)
  if job and #sets == 0 then
    local topic, state = search_topics(id)
    if state then sets[1] = { topic = topic, state = state } end
  end
  local own_topic = job and job.rules and job.topic
  local keep
  for _, set in ipairs(sets) do
    -- Keeps the first set in the order of STATES. `reserved` is first, because a consumer may hold the job. The record
    -- says whether the job is finished.
    local is_possible = not (job and job.rules) or (set.state == 'finished') == (job.ended ~= nil)
    if is_possible and (not own_topic or set.topic == own_topic) then keep = keep or set end
  end
  for _, set in ipairs(sets) do
    -- A job that is to wait must not run too early.
    local is_later = keep and keep.state == 'ready' and set.state == 'delayed' and set.time > NOW
    if is_later and set.topic == keep.topic then keep = set end
  end
  if job and #sets == 1 and keep then
    if lacks_body(id, job.rules) then
      quarantine(id, job, keep)
      return 5
    end
    if not lacks_expiry(id, job, keep) then return 0 end
    local _, due = state_of(keep.topic, id)
    join_set(keep.state, keep.topic, id, due, job.rules)
    return 6
  end
  local has_rest = text or redis.call('HEXISTS', BODIES, id) == 1 or history_text(id)
  if not job and #sets == 0 and not has_rest then return 0 end
  for _, set in ipairs(sets) do
    if set ~= keep or not job then
      leave_set(set.state, set.topic, id)
      topic_shrinks(set.topic)
    end
  end
  if not job then
    erase('attempt', id)
    erase('body', id)
    erase('history', id)
    return 4
  end
  if not keep then register_topic(put_back(id, job)) end
  return #sets == 0 and 1 or #sets > 1 and 2 or 3
end

local function transition()
  local mend, reply, i = ARGV[2] == '1', {}, 3
  while i <= #ARGV do
    local count = tonumber(ARGV[i + 1])
    searches = MAX_SEARCHES
    reply[#reply + 1] = examine(ARGV[i], { unpack(ARGV, i + 2, i + 1 + count) })
    if mend then commit() else discard_gathered() end
    i = i + 2 + count
  end
  return reply
end

--- @include "shared/each_bucket"
