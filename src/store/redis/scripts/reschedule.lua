-- delayed, ready -> delayed, ready: another time or other contents. Ends the hold of a consumer whose TTR expired.
-- ARGV  for each job: id, schedule (see due_time) or '', checksum and text of another body or '' and '', fields of its
--       policy that change (PolicyFields::text)
-- Reply for each job: {record, attempt record (''), history (''), state, due time}; or refusal. Ends early once it is
--       long enough: the remaining jobs are unchanged, and to be sent again.

--- @include "shared/prelude"
--- @include "shared/jobs"
--- @include "shared/each_job"

local RECORD = '^[34] (%x+) [^\n]+\n(.*)$'

-- The attempts that follow from a list of waits: one more than it has values.
local function list_attempts(backoff)
  local values = string.match(backoff, '^list:(.+)$')
  return values and 2 + select(2, string.gsub(values, ',', ''))
end

-- The same as Policy::set: a new list of waits brings its own limit if the old limit followed from the old list.
local function with_implied_attempts(fields, rules)
  local backoff = string.match(';' .. fields, ';b=([^;]*)')
  local implied = backoff and list_attempts(backoff)
  if not implied or string.find(';' .. fields, ';m=') or rules.max_attempts ~= list_attempts(rules.backoff) then
    return fields
  end
  return fields .. ';m=' .. string.format('%d', implied)
end

-- The new record, its long body (nil if it has none) and its rules; nil if the old body is to stay and is damaged or on
-- another node.
local function changed(id, record, rules, new_crc, new_body, fields)
  local created, body = string.match(record, RECORD)
  if new_crc ~= '' then
    body = new_body
  else
    if rules.length > MAX_INLINE_BODY then body = redis.call('HGET', BODIES, id) or '' end
    if #body ~= rules.length then return nil end
  end
  local text = format_rules(id, {
    crc = new_crc ~= '' and new_crc or rules.crc, length = #body,
    policy = change_policy(rules.policy, with_implied_attempts(fields, rules)), topic = rules.topic
  })
  local is_long = #body > MAX_INLINE_BODY
  return '4 ' .. created .. ' ' .. text .. '\n' .. (is_long and '' or body), is_long and body, text
end

-- Returns the reply for the job, and its length in bytes.
local function reschedule(id, text, schedule, new_crc, new_body, fields)
  local record = redis.call('HGET', POOL, id)
  if not record then return NOT_FOUND, 0 end
  local rules = parse_rules(id, rules_text(record))
  if not rules then return UNREADABLE, 0 end
  local topic, state, time = locate_job(id, rules.topic)
  if state == 'reserved' then return RESERVED, 0 end
  if state == 'dead' then return DEAD, 0 end
  if rules.tail ~= '' then return FINISHED, 0 end
  -- Without another time it stays where it is, whatever the clock shows; a job in no set becomes ready.
  local due, new_state = time or NOW, state or 'ready'
  if schedule ~= '' then due, new_state = due_time(schedule) end
  if not due then return DUE_TOO_FAR, 0 end

  local attempt = parse_attempt(text)
  local new_record, long_body, new_rules = changed(id, record, rules, new_crc, new_body, fields)
  if not new_record then return UNREADABLE, 0 end
  leave_set(state, topic, id)
  save('record', id, new_record)
  if not long_body then
    if rules.length > MAX_INLINE_BODY then erase('body', id) end
  elseif new_crc ~= '' then
    save('body', id, long_body)
  end
  if attempt then
    -- The consumer whose TTR expired knows neither the new time nor the new contents: its hold ends.
    attempt.rules, attempt.reservation = new_rules, '-'
    save('attempt', id, format_attempt(attempt))
  end
  join_set(new_state, topic, id, due)
  new_record = new_record .. (long_body or '')
  local history = may_have_history(text) and history_text(id) or ''
  local reply = { new_record, attempt and format_attempt(attempt) or '', history, STATE_CODE[new_state], due }
  return reply, #new_record + rules.length + #history
end

local function transition()
  local replies, bytes = {}, 0
  each_job(5, function(id, text, i)
    local reply, size = reschedule(id, text, unpack(ARGV, i + 1, i + 4))
    replies[#replies + 1], bytes = reply, bytes + size
    return bytes > MAX_REPLY_BYTES and 'stop'
  end)
  return replies
end

--- @include "shared/guard"
--- @include "shared/each_bucket"
