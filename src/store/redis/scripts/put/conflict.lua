-- A put whose id exists already.

-- Returns the reply of put.lua for the job.
local function conflict(id, topic, due, state, record, body, on_conflict)
  local tools = tools()
  local text = redis.call('HGET', ATTEMPTS, id)
  local job = tools.find_job(id, text)
  if not job then return EXISTS end
  local old_topic, old_state, old_time = tools.locate_job(id, job.topic)
  -- A put keeps or replaces only a job of its own topic, or keeps one that has died there and moved.
  local has_moved = old_topic ~= topic and on_conflict == 'keep' and job.rules
    and string.match(';' .. job.rules.policy, ';o=([^;]*)') == topic
  if old_state and (on_conflict == 'reject' or old_topic ~= topic and not has_moved) then
    return { EXISTS, STATE_CODE[old_state], old_topic }
  end
  if on_conflict == 'reject' then return EXISTS end
  -- A job in no set does not count as existing, even if it has a record: it is replaced.
  if on_conflict == 'keep' and old_state then
    -- The score of a delayed or ready job is its due time; that of any other is a deadline.
    local has_due = old_state ~= 'delayed' and old_state ~= 'ready' and (job.ended or job.attempt)
    return { 1, STATE_CODE[old_state], has_due and has_due.due or old_time, has_moved and old_topic or nil }
  end
  if old_state == 'reserved' then return RESERVED end
  -- Fails in a full Redis, before any write that frees memory: see prelude.lua.
  redis.call('ZADD', BUCKET, 'XX', 0, '')
  if old_state then tools.topic_shrinks(old_topic) end
  tools.leave_set(old_state, old_topic, id)
  tools.leave_expiring(old_topic, id, job.rules)
  tools.erase('attempt', id)
  if old_state == 'finished' or job.ended or tools.may_have_history(text) then tools.erase('history', id) end
  tools.save('record', id, record)
  if body then tools.save('body', id, body) else tools.erase('body', id) end
  tools.join_set(state, topic, id, due, tools.parse_rules(id, tools.rules_text(record)))
  tools.register_topic(topic)
  tools.commit()
  return { old_state == 'finished' and 3 or 2, STATE_CODE[state], due }
end
