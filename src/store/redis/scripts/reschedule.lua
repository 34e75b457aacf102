-- delayed, ready -> delayed, ready: another time or other contents.
-- ARGV  per job: id, schedule (see due_time), then '' for what stays or: checksum, body, TTR in ms,
--       max attempts, backoff ('-' for none)
-- Reply per job: {record, attempt record (''), state, due time}; or refusal
local reply = {}
local RECORD = '^1 (%d+) (%x+) (%d+) (%d+) (%d+) (%S+) (%S+)\n(.*)$'

local function or_else(given, old)
  return given ~= '' and given or old
end

-- The attempts that follow from a list: one more than it has values.
local function list_attempts(backoff)
  local values = string.match(backoff, '^list:(.+)$')
  return values and 2 + select(2, string.gsub(values, ',', ''))
end

local function reschedule(id, schedule, new_crc, new_body, new_ttr, new_max, new_backoff)
  local record = redis.call('HGET', POOL, id)
  local created, crc, ttr, max, retention, backoff, topic, body = string.match(record or '', RECORD)
  if not created then return NOT_FOUND end
  local state, score = state_of(topic, id)
  if state == 'reserved' then return RESERVED end
  if state == 'dead' then return DEAD end
  local due = score
  if schedule ~= '' then due = due_time(schedule) end
  if not due then return DUE_TOO_FAR end

  -- Another list takes along the limit that followed from the list before it.
  if new_max == '' and tonumber(max) == list_attempts(backoff) then
    new_max = list_attempts(new_backoff) or ''
  end
  max, backoff = or_else(new_max, max), or_else(new_backoff, backoff)
  local a = parse_attempt(redis.call('HGET', ATTEMPTS, id))
  record = string.format('1 %s %s %s %s %s %s %s\n', created, or_else(new_crc, crc),
    or_else(new_ttr, ttr), max, retention, backoff, topic) .. (new_crc ~= '' and new_body or body)
  take(topic, id)
  redis.call('HSET', POOL, id, record)
  if a then
    -- Whoever let the TTR run out may still release it, by the new rules.
    a.max, a.backoff = tonumber(max), backoff
    redis.call('HSET', ATTEMPTS, id, attempt_text(a))
  end
  return { record, a and attempt_text(a) or '', STATE_CODE[place_due(topic, id, due)], due }
end

for i = 2, #ARGV, 7 do
  reply[#reply + 1] = reschedule(unpack(ARGV, i, i + 6))
end
return reply
