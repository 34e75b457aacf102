-- delayed, ready -> delayed, ready: another time or other contents; ends the hold of a consumer whose TTR expired.
-- ARGV  per job: id, schedule (see due_time), then '' for what stays or: checksum, body, fields of its
--       policy (PolicyFields::text)
-- Reply per job: {record, attempt record (''), state, due time}; or refusal. Fewer than there are
--       jobs once their bodies are enough: the rest is as it was, and to be sent again.
local reply, bytes = {}, 0
local RECORD = '^[34] (%x+) [^\n]+\n(.*)$'

-- The attempts that follow from a list: one more than it has values.
local function list_attempts(backoff)
  local values = string.match(backoff, '^list:(.+)$')
  return values and 2 + select(2, string.gsub(values, ',', ''))
end

-- The record, the long body (nil if it has none) and the rules that the job is to have; nil if the body
-- that it keeps has another length, or is nowhere: it is damaged, or on another node.
local function changed(id, record, rules, new_crc, new_body, fields)
  local created, body = string.match(record, RECORD)
  if new_crc ~= '' then
    body = new_body
  else
    if rules.length > INLINE then body = redis.call('HGET', BODIES, id) or '' end
    if #body ~= rules.length then return nil end
  end
  -- Another list takes along the limit that followed from the list before it: the same as Policy::set.
  local backoff = string.match(';' .. fields, ';b=([^;]*)')
  local implied = backoff and list_attempts(backoff)
  if implied and not string.find(';' .. fields, ';m=') and rules.max == list_attempts(rules.backoff) then
    fields = fields .. ';m=' .. string.format('%d', implied)
  end
  local text = format_rules(id, {
    crc = new_crc ~= '' and new_crc or rules.crc, length = #body, policy = change_policy(rules.policy, fields),
    topic = rules.topic
  })
  local long = #body > INLINE
  return '4 ' .. created .. ' ' .. text .. '\n' .. (long and '' or body), long and body, text
end

local function reschedule(id, text, schedule, new_crc, ...)
  local record = redis.call('HGET', POOL, id)
  if not record then return NOT_FOUND end
  local rules = parse_rules(id, rules_text(record))
  if not rules then return UNREADABLE end
  local topic, state, score = locate(id, rules.topic)
  if state == 'reserved' then return RESERVED end
  if state == 'dead' then return DEAD end
  -- Without another time it stays where it is, whatever the clock shows; what is in no set is ready.
  local due, became = score or NOW, state or 'ready'
  if schedule ~= '' then due, became = due_time(schedule) end
  if not due then return DUE_TOO_FAR end

  local a, long, rules_now = parse_attempt(text), nil, nil
  record, long, rules_now = changed(id, record, rules, new_crc, ...)
  if not record then return UNREADABLE end
  take(state, topic, id)
  note('record', id, record)
  if not long then
    if rules.length > INLINE then note('no_body', id) end
  elseif new_crc ~= '' then
    note('body', id, long)
  end
  if a then
    -- The consumer whose TTR expired knows neither the new time nor the new contents: its hold ends.
    a.rules, a.reservation = rules_now, '-'
    note('attempt', id, attempt_text(a))
  end
  record = record .. (long or '')
  bytes = bytes + #record + rules.length
  place(became, topic, id, due)
  return { record, a and attempt_text(a) or '', STATE_CODE[became], due }
end

each_job(5, function(id, text, i)
  reply[#reply + 1] = reschedule(id, text, unpack(ARGV, i + 1, i + 4))
  return bytes > ENOUGH and 'stop'
end)
return reply
