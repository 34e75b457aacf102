-- delayed, ready -> delayed, ready: a new time or new contents. Ends the hold of a consumer whose TTR expired.
-- ARGV  for each job: id, schedule (see due_time) or '', checksum and text of a new body or '' and '', fields of its
--       policy that change (PolicyFields::text)
-- Reply for each job: {record, attempt record (''), history (''), state, due time}; or refusal. Ends early once it is
--       long enough: the remaining jobs are unchanged, and to be sent again.

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/room"
--- @include "shared/each_job"

-- The attempt limit that a list of waits implies: one more than its number of values.
local function list_attempts(backoff)
  local values = string.match(backoff, '^list:(.+)$')
  return values and 2 + select(2, string.gsub(values, ',', ''))
end

-- The same as Policy::set: a new list of waits implies a new limit if the old list implied the old limit.
local function with_implied_attempts(fields, rules)
  local backoff = string.match(';' .. fields, ';b=([^;]*)')
  local implied = backoff and list_attempts(backoff)
  if not implied or string.find(';' .. fields, ';m=') or rules.max_attempts ~= list_attempts(rules.backoff) then
    return fields
  end
  return fields .. ';m=' .. string.format('%d', implied)
end

-- The bytes of a record and its body, which may be outside the record.
local function old_length(record, rules)
  return #record + (rules.length > MAX_INLINE_BODY and rules.length or 0)
end

-- Returns the reply for the job, and its length in bytes.
local function reschedule(id, text, schedule, new_crc, new_body, fields)
  local record = redis.call('HGET', POOL, id)
  if not record then return NOT_FOUND, 0 end
  local rules, ended = parse_record(id, record)
  if not rules then return UNREADABLE, 0 end
  local topic, state, time = locate_job(id, rules.topic)
  if state == 'reserved' then return RESERVED, 0 end
  if state == 'dead' then return DEAD, 0 end
  if ended then return FINISHED, 0 end
  -- Without a new time, the job stays where it is, whatever the clock shows. A job in no set becomes ready.
  local due, new_state = time or NOW, state or 'ready'
  if schedule ~= '' then due, new_state = due_time(schedule) end
  if not due then return DUE_TOO_FAR, 0 end

  local attempt = parse_attempt(text)
  local policy = change_policy(rules.policy, with_implied_attempts(fields, rules))
  if schedule ~= '' or string.find(';' .. fields, ';x=') then policy = expire_from(policy, due) end
  local new_record, long_body, new_rules = rewrite(id, record, rules, policy, new_crc, new_body)
  if not new_record then return UNREADABLE, 0 end
  if is_full() and #new_record + #(long_body or '') > old_length(record, rules) then return NO_ROOM, 0 end
  leave_set(state, topic, id)
  leave_expiring(topic, id, rules)
  save_rewritten(id, new_record, long_body, rules, new_crc ~= '')
  if attempt then
    -- The consumer whose TTR expired knows neither the new time nor the new contents: its hold ends.
    attempt.rules, attempt.reservation = new_rules, '-'
    save('attempt', id, format_attempt(attempt))
  end
  join_set(new_state, topic, id, due, parse_rules(id, new_rules))
  new_record = new_record .. (long_body or '')
  local history = may_have_history(text) and history_text(id) or ''
  local reply = { new_record, attempt and format_attempt(attempt) or '', history, STATE_CODE[new_state], due }
  return reply, #new_record + rules.length + #history
end

local function transition()
  local replies, bytes = {}, 0
  is_full() -- asked before the first write
  each_job(5, function(id, text, i)
    local reply, size = reschedule(id, text, unpack(ARGV, i + 1, i + 4))
    replies[#replies + 1], bytes = reply, bytes + size
    return bytes > MAX_REPLY_BYTES and 'stop'
  end)
  return replies
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
