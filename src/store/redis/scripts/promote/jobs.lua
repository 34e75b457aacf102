-- Promotions of overdue jobs that are reserved, dead or finished. Each function takes jobs of one topic, as a list of
-- ids and scores in turn, gathers their changes, and returns the number of each outcome.
local promotions = {}

local function ids_of(found)
  local ids = {}
  for n = 1, #found, 2 do ids[#ids + 1] = found[n] end
  return ids
end

-- The next attempt is counted from the end of the TTR, so it does not matter when this runs.
function promotions.reserved(topic, found)
  local ids = ids_of(found)
  local texts, counts = redis.call('HMGET', ATTEMPTS, unpack(ids)), { ready = 0, expired = #ids, dead = 0 }
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
      if error == DAMAGED or rules.max_attempts > 0 and attempt.count >= rules.max_attempts then
        attempt.died, state = deadline, 'dead'
        join_set('dead', topic, id, deadline + rules.retention)
      else
        state = join_by_due_time(topic, id, deadline + wait)
      end
      end_attempt(id, texts[n], attempt, 'reserved', deadline, 'e', deadline, '')
      save('attempt', id, format_attempt(attempt))
    end
    if counts[state] then counts[state] = counts[state] + 1 end
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
