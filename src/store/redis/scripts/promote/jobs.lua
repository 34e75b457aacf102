-- Promotions of overdue jobs that are reserved, dead or finished, and of jobs that expire. Each function takes jobs of
-- one topic, as a list of ids and scores in turn, gathers their changes, and returns the number of each outcome.
local promotions = {}

local function ids_of(found)
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  return ids
end

-- The next attempt is counted from the end of the TTR, so it does not matter when this runs.
function promotions.reserved(topic, found)
  local ids = ids_of(found)
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  local counts = { ready = 0, expired = #ids, dead = 0, moved = 0, highest = 0, targets = {} }
  for n, id in ipairs(ids) do
    local job, deadline, state = find_job(id, texts[n]) or {}, time_of('reserved', found[2 * n]), 'ready'
    local attempt, rules, error = job.attempt, job.rules, TTR_EXPIRED
    if not attempt then
      -- The attempt record is unreadable: the job stays, and its attempts start again.
      if may_have_history(texts[n]) then save('attempt', id, 'h') else erase('attempt', id) end
      join_set('ready', topic, id, deadline)
    else
      local wait = rules and backoff_delay(rules.backoff, attempt.count, id)
      -- As after a pop, a job with unreadable rules becomes dead.
      if not wait then rules, error = rules_of_damaged(id, topic), DAMAGED end
      attempt.error, attempt.rules = error, rules.text
      if error ~= DAMAGED and expires_before(rules, deadline + wait) then attempt.error = EXPIRED end
      expire_attempt(id, texts[n], attempt, deadline)
      if attempt.error ~= TTR_EXPIRED or rules.max_attempts > 0 and attempt.count >= rules.max_attempts then
        local target = die(id, attempt, rules, topic, deadline)
        state = target and 'moved' or 'dead'
        if target then count_moved(counts.targets, target, rules.priority) end
      else
        state = join_by_due_time(topic, id, deadline + wait, rules)
      end
      save('attempt', id, format_attempt(attempt))
    end
    if counts[state] then counts[state] = counts[state] + 1 end
    if state == 'ready' then counts.highest = math.max(counts.highest, rules and rules.priority or STANDARD_PRIORITY) end
  end
  return counts
end

-- Checks each job again: the set may have jobs that a consumer holds, that no longer exist, or that expire later.
function promotions.expiring(topic, found)
  local ids, counts = ids_of(found), { dead = 0, moved = 0, targets = {} }
  local texts = redis.call('HMGET', ATTEMPTS, unpack(ids))
  for n, id in ipairs(ids) do
    local job = find_job(id, texts[n])
    local rules = job and job.rules
    local state, due = state_of(topic, id)
    leave_set('expiring', topic, id)
    if rules and rules.expires_at and (state == 'delayed' or state == 'ready') then
      if rules.expires_at <= NOW then
        local target = expire(id, texts[n], rules, topic, state, due)
        local outcome = target and 'moved' or 'dead'
        counts[outcome] = counts[outcome] + 1
        if target then count_moved(counts.targets, target, rules.priority) end
      else
        join_set(state, topic, id, due, rules)
      end
    end
  end
  return counts
end

function promotions.dead(_, found)
  local ids = ids_of(found)
  for _, id in ipairs(ids) do remove_job(id, nil, nil, true) end
  return { gone = #ids }
end

function promotions.finished(_, found)
  for _, id in ipairs(ids_of(found)) do remove_job(id, nil, nil, true) end
  return {}
end
